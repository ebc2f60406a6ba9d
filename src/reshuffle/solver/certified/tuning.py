"""Every number that steers the certified solver, with its unit. None of them changes what is promised: a fit ends at a certified
gap whatever they are. They decide how long that takes.

What speaks for each: `benchmarks/tuning.py` takes half and double of it, one at a time, on generated problems (text-like, one-hot,
dense correlated, heavy-tailed, separable, few rows and many), and prints the time over that with the value below. The figures in
brackets are the geometric means of that, half first, over the problems on which the number changes what is done, and how many those
are, of the 23 that there were before baskets, word counts, topics and species, and before Hessians were priced by their storage;
chance moves the ratio of one problem by up to 0.07.
[no effect] means on none, and a dash a value without sense; a number without brackets is newer than the last run. The numbers for
blocks were tried on an H200: six problems of 100,000 to 3,000,000 rows and 50 to 3000 features, to 1e-3 and to 1e-7.
"""

# --- which method

FEW_FEATURES = 500  #: features up to which a Hessian is formed and factorised [1.28, 1.56; 4 problems]
FEW_FEATURES_IN_BLOCKS = 4096  #: the same where rows are worked with in blocks, on a GPU [not tried]
VERY_FEW_PRODUCTS = 7.0  #: products that a Hessian may take as long as for that to be at once
FEW_PRODUCTS = 17.0  #: the same where iterations on a batch before have taken as long
MOST_FEATURES = 3000  #: features up to which that is done once a step has taken as long without it
PRODUCT_OVERHEAD = 30_000  #: numbers in the data that could be worked with in the time that an iteration takes besides
FEW_ROWS = 200  #: rows up to which, with more features, Newton steps are made in the span of rows
FEW_ROWS_LATER = 600  #: the same after the first turn
SMALL = 4096  #: numbers in the data up to which steps go on until rounding ends them [0.74, 0.94; 3 problems]
PATIENCE_MANY = 25.0  #: SDCA passes still to go at which subsampled Newton takes over, with many features
PATIENCE_ROWS = 6.0  #: rows for each feature up to which it is so many; with more, fewer
PATIENCE_UNEVEN = 4.0  #: root mean square of squared row norms, over their mean: with more than that, more passes
PATIENCE_FEW = 3.0  #: so many at least
PATIENCE_TRIED = 0.75  #: of those passes that are made before it is asked whether those to go have become fewer
PATIENCE_ENDS = 4.0  #: times those passes that may be to go, by how much fewer they have become
TURN_PRODUCTS = 4.0  #: products with all rows that Newton steps may make then, for each of those passes, before SDCA goes on
TURNS_GROW = 4.0  #: times as many of both in the next turn
STALL_RECORDS = 60  #: records in which the gap must have fallen for a fit that may stop to go on
STALL_SHARE = 0.5  #: of the gap before those records: it has not fallen where it is still as large [no effect]

# --- a trial of SDCA with few features

PASSES_A_HESSIAN = 0.022  #: passes to expect, for each product that a Hessian takes as long as, times the speed of BLAS squared
TRIAL_ENTRIES = 50_000  #: numbers in the data above which there is a trial
TRIAL_ROWS = 8.0  #: rows for each feature that it visits
TRIAL = 0.125  #: of all rows that it visits at most
TRIAL_JUDGES = 1000  #: other rows at most by which it is judged
TRIAL_PATIENCE = 0.33  #: of the passes that might be expected: so many may be to go once their rate is known
FIRST_GAP = 3.0  #: times what there is to gain: no pass is taken to leave more
UNDONE = 1.5  #: passes more for a digit where reach times curvature is one
RESTING = 0.25  #: of the passes that visit a row in a flat part of its loss

# --- SDCA

PARTS = 16  #: of the first pass, each as though the rows visited by then were all
GROWS_BELOW = 0.1  #: reach of a row times what others leave of its loss: the first pass grows where it is less
PROVEN_BELOW = 12.5  #: the same over the share that is aimed for: where it is less, one pass may be enough
PROOF_ROWS = 2000  #: rows at most that tell whether it was
PROOF_WITHIN = 2.0  #: targets that the gap by the slopes at x may be, by those rows, for these to be worth their products
WEAKEST_PULL = 10.0  #: of an intercept at first, at least, times how much all losses together can bend
STRONGEST_PULL = 100.0  #: the same at most
CENTRE_LAGS = 1e-3  #: of what a pass gained: where more is left of that pull, it grows
PULL_GROWS = 10.0  #: times, up to that of a row's features
RESTS_BELOW = 0.3  #: of what a row gained on average in a pass: one that gained less rests
RESTS_ABOVE = 0.3  #: of what the pass before gained: where passes gain less each time, all rows are worth a visit
LONGEST_REST = 15  #: passes
ALIKE = 0.5  #: by which the logarithm of the gap falls in the passes over which x is averaged
FASTEST = 0.1  #: of what the pass before gained: no pass is taken to gain less
GAP_OVER_GAINS = 2.5  #: what the gap is taken to be over what passes have still to gain, before it is looked at
LAST_PASS = 2.0  #: times what the rate of the last pass says is still to go of one: so much is made of it [1.09, 1.00; 5 problems]
SHORTEST_PASS = 0.2  #: of a pass at least: a certificate costs as much [1.01, 0.99; 1 problem]
RATE_PASSES = 3  #: back over which the rate is measured that says how many are still to go

# --- subsampled Newton

GROWTH = 4  #: times larger is each batch than the one before
GROWTH_RICH = 8  #: the same after a batch that is rich
RICH = 64  #: rows for each feature that a rich batch has: its optimum is near to that of all rows
SMALLEST_BATCH = 200  #: rows of the first batch at least [1.01, 0.99; 5 problems]
ROWS_A_FEATURE = 4  #: rows of the first batch for each feature at least
ROWS_A_FEATURE_IN_BLOCKS = 16  #: the same where rows are worked with in blocks, on a GPU [1.09, 1.00]
BATCH_STEPS = 10  #: Newton steps on a batch that is not the last at most [no effect]
BATCH_DONE = 0.1  #: of what was gained so far: a batch is done when a full step lowers f by less [1.00, 0.97; 6 problems]
OVERFITS = 0.5  #: of what a batch gained: where the next keeps less of it, the batch was too small
HESSIAN_OPERATIONS = 32.0  #: for each entry of the data, spent on the Hessian that preconditions conjugate gradients
HESSIAN_OPERATIONS_IN_BLOCKS = 3.0  #: the same where rows are worked with in blocks, on a GPU [1.01, 1.03; all rows: 1.14]
HESSIAN_ROWS_A_FEATURE = 8  #: rows of that Hessian for each feature at least
REFINE_AFTER = 2.0  #: times what a better preconditioner takes: once iterations of all steps have taken so long, one is formed
ROUGH_ENTRIES = 50_000  #: numbers in the data above which Hessians in single precision save any time
ROUGH_PIVOT = 1e-3  #: of the diagonal that is left by a pivot at least, of Hessians in single precision, for these to be used
BLUR = 3e-3  #: of its diagonal: so much is added to one whose pivots are too small, where another would be dear
CG_TELLS = 2  #: iterations of a step before a better one is formed: they tell how many are left
KEEP_WITHIN = 3  #: iterations of conjugate gradients in which a Hessian is kept for another step, or as many as one takes
RENEW_WITHIN = 8.0  #: products that a Hessian may take as long as to be formed anew wherever models did not hold
KEEP_IF = 0.1  #: of the slope: f must have fallen as models said to this accuracy for it to be kept [1.01, 1.00; 12 problems]
SAMPLE_ABOVE = 1.25  #: times those rows: up to so many are taken as they are, more are sampled by curvature
SAMPLE_FLAT = 1e-8  #: of the largest curvature: rows that bend less are left out before that [no effect]
SAMPLE_ROUNDS = 4  #: times that chances are raised to make up for those above one [no effect]
CG_ITERATIONS = 300  #: of conjugate gradients in a step at most [0.60, 1.41; 1 problem]
CG_FADED = 0.4  #: of what products of a step gain on average: where they stop far from the optimum, once one gains less
STEP_PRODUCTS = 3.0  #: that a step takes besides
CG_SHARE = 1e-3  #: of the first residual, preconditioned, squared: far from the optimum, nothing is left to gain below
CG_DAMPED = 1e-4  #: the same nearer to it, where steps are damped, which leads past what would be certified
CG_EXACT_WITHIN = 60.0  #: targets: a step to lower f by less is solved as the certificate asks [0.98, 1.00; 1 problem]
CG_MISSED = 0.1  #: targets by which models of a step may miss f for it to be solved like that
CG_LOOK = 8.0  #: iterations after which f is held against what the models say
CG_LOOK_LATER = 1.5  #: times as many are made before the next look
CG_HOLDS = 0.25  #: of what the models say: where f falls by less, iterations end
CERTIFICATE_SHARE = 0.6  #: of the target that the gap of the models of such a step may be
DIRECTIONS = 0.1  #: of a product: so long may it take to correct a preconditioner by directions of the step before
NEARBY_SHARE = 0.3  #: the same for the one step from where neighbouring fits point to, after which there is mostly no other
CERTIFY_WITHIN = 30.0  #: targets that quadratic convergence may leave for a bound to be worth its pass [0.92, 1.00; 1 problem]
DAMPED_LENGTH = 1e-3  #: of a step: after shorter ones the next are damped as after this
DAMPING_FADES = 0.25  #: what a full step leaves of it
DAMPING_ENDS = 1e-3  #: of alpha: damping below this is none
UNSEEN = 4.0  #: times as far off as any row of the last batch: where one is on the next, its first models are steep
TOO_LITTLE = 0.75  #: of what models say: after a step that lowered f by less, those of rows on the wrong side are steep
SUFFICIENT = 1e-4  #: of what the slope promises: a step that lowers f by less is too long [no effect]
BACKTRACK = 0.5  #: of its length that is left of such a step [1.04, -; 6 problems]

# --- Moreau smoothing of kinks

FIRST_WIDTH = 1.0  #: residuals: how far kinks are smoothed at first [1.07, 1.04; 5 problems]
SHRINK = 0.7  #: of the width after each update of the multipliers, and of what steps may leave to be solved [1.74, -; 5 problems]
SMALLEST_WIDTH = 1e-3  #: of the first width [1.00, 1.01; 1 problem]
MODELS_HOLD = 0.03  #: of the slope: multipliers move when f fell as models said to this accuracy [1.04, 0.96; 4 problems]
SETTLE_AFTER = 2.0  #: steps on the same multipliers, and one more, after which a full step moves them [1.05, 1.05; 4 problems]
SETTLE_LATER = 0.05  #: stricter each time, so that settling too early cannot go round in a circle [0.94, 1.02; 2 problems]
