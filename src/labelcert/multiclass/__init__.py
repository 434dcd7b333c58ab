"""More than two classes: one model per class against the rest, prediction by the highest score.

Moving a label from class a to class b toggles it in the models of a and b alone. So each class needs its scores over
the sets of labels toggled in it, and nothing else; relabellings are then combined from these tables.
"""

from labelcert.multiclass.answer import MULTICLASS_ENGINES, certify_classes

__all__ = ["MULTICLASS_ENGINES", "certify_classes"]
