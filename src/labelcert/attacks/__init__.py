"""Label-flip attacks from the literature: what heuristics find of the exact worst case."""

from labelcert.attacks.registry import ATTACKS, Attack, AttackInfo, attack_names, get_attack
from labelcert.attacks.running import attack

__all__ = ["ATTACKS", "Attack", "AttackInfo", "attack", "attack_names", "get_attack"]
