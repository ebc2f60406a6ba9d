"""Every number that steers the certified solver, with its unit. None of them changes what is promised: a fit ends at a certified
gap whatever they are. They decide how long that takes.

What chose each: `benchmarks/tuning.py` takes half and double of it, one at a time, on generated problems (text-like, one-hot, dense
correlated, heavy-tailed, separable, few rows and many), and prints the time over that with the value below. The two figures in
brackets are the geometric means of that, half first.
"""

# --- which method

FEW_FEATURES = 1000  #: features up to which a Hessian is formed and factorised
FEW_ROWS = 200  #: rows up to which, with more features than rows, the problem is solved in the span of its rows
SMALL = 4096  #: numbers in the data up to which steps go on until rounding ends them
PATIENCE_FEW = 3.0  #: SDCA passes still to go at which subsampled Newton takes over, with few features
PATIENCE_MANY = 25.0  #: the same with many features, where a Newton step costs more
STALL_RECORDS = 20  #: records in which the gap must have fallen for a fit that may stop to go on
STALL_SHARE = 0.5  #: of the gap before those records: it has not fallen where it is still as large

# --- SDCA

HEAVY = 2.0  #: mean squared row norms from which a row is visited twice in a pass
RATE_PASSES = 2  #: passes back over which the rate is measured that says how many are still to go

# --- subsampled Newton

GROWTH = 4  #: times larger is each batch than the one before
SMALLEST_BATCH = 200  #: rows of the first batch at least
ROWS_A_FEATURE = 2  #: rows of the first batch for each feature at least
BATCH_STEPS = 10  #: Newton steps on a batch that is not the last at most
BATCH_DONE = 0.1  #: of what was gained so far: a batch is done when a full step lowers f by less
HESSIAN_OPERATIONS = 72.0  #: for each entry of the data, spent on the Hessian that preconditions conjugate gradients
HESSIAN_ROWS_A_FEATURE = 24  #: rows of that Hessian for each feature at least
SAMPLE_ABOVE = 2  #: times those rows: up to so many are taken as they are, more are sampled by curvature
SAMPLE_FLAT = 1e-8  #: of the largest curvature: rows that bend less are left out before that
SAMPLE_ROUNDS = 4  #: times that chances are raised to make up for those above one
CG_ITERATIONS = 300  #: of conjugate gradients in a step at most
CG_SHARE = 0.01  #: of the first residual, squared and preconditioned, at which they stop far from the optimum
CG_EXACT_WITHIN = 60.0  #: targets: a step expected to lower f by less may be the last, and is solved as the certificate asks
CERTIFICATE_SHARE = 0.1  #: of the target that the residual of such a step may cost the certificate
CERTIFY_WITHIN = 30.0  #: targets that quadratic convergence may leave for a lower bound to be worth its pass

SUFFICIENT = 1e-4  #: of what the slope promises: a step that lowers f by less is too long
BACKTRACK = 0.5  #: of its length that is left of such a step

# --- models of each loss

CARE_BELOW = 0.5  #: a line search that ends below this length makes the models of losses as steep as the label allows
CARE_FADES = 0.25  #: what a full step leaves of that

# --- Moreau smoothing of kinks

FIRST_WIDTH = 1.0  #: residuals: how far kinks are smoothed at first
SHRINK = 0.7  #: of the width after each update of the multipliers
SMALLEST_WIDTH = 1e-3  #: of the first width
MODELS_HOLD = 0.03  #: of the slope: multipliers move when f fell as the models said to this accuracy
SETTLE_AFTER = 2.0  #: steps on the same multipliers, and one more, after which a full step moves them anyhow
SETTLE_LATER = 0.05  #: stricter each time, so that settling too early cannot go round in a circle
