"""Linear models with the interface of scikit-learn and a certificate: fitted, they say how far from the optimum they can be."""

from reshuffle.estimators.classifier import ShuffledSGDClassifier
from reshuffle.estimators.regressor import ShuffledSGDRegressor

__all__ = ["ShuffledSGDClassifier", "ShuffledSGDRegressor"]
