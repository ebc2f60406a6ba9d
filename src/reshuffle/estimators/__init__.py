"""Linear models with the interface of scikit-learn and a certificate: fitted, they say how far from the optimum they can be.

`Certified...` is the certified solver, which needs no step size and, as `Certified...CV`, chooses alpha itself; `ShuffledSGD...` is
Algorithm 1 of the paper, with its order, batch size, step size and epochs. `ShuffledSGD...CV` is another name of `Certified...CV`:
which alpha is best is asked of the optimum, to which both lead.
"""

from reshuffle.estimators.certified import CertifiedClassifier, CertifiedRegressor
from reshuffle.estimators.cross_validation import CertifiedClassifierCV, CertifiedRegressorCV
from reshuffle.estimators.shuffled import ShuffledSGDClassifier, ShuffledSGDRegressor

ShuffledSGDClassifierCV, ShuffledSGDRegressorCV = CertifiedClassifierCV, CertifiedRegressorCV  # whose optimum is the same one

__all__ = ["CertifiedClassifier", "CertifiedClassifierCV", "CertifiedRegressor", "CertifiedRegressorCV"]
__all__ += ["ShuffledSGDClassifier", "ShuffledSGDClassifierCV", "ShuffledSGDRegressor", "ShuffledSGDRegressorCV"]
