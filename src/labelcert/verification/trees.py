"""tmp"""
import numpy as np
class Trees:
    used=""
    def __init__(self, cert, statement, machine, walk, predicted, report):
        self.n, self.B = statement.n, statement.budget
    def proved_radii(self): return np.zeros(self.n,dtype=np.int64)
    def proved_curve(self): return np.full(self.B+1,self.n)
