/** Largest KL divergence in nats that 8-bit activations may cause in the prediction after a prompt. */
export const int8Tolerance = 1e-3;

/** KL(p || q) in nats of the softmax of two rows of logits. */
export function klDivergence(p: ArrayLike<number>, q: ArrayLike<number>): number {
  const [pNorm, qNorm] = [p, q].map(logSumExp) as [number, number];
  let sum = 0;
  for (let i = 0; i < p.length; i++) {
    const logP = (p[i] as number) - pNorm;
    sum += Math.exp(logP) * (logP - ((q[i] as number) - qNorm));
  }
  return sum;
}

function logSumExp(row: ArrayLike<number>): number {
  let top = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < row.length; i++) top = Math.max(top, row[i] as number);
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += Math.exp((row[i] as number) - top);
  return top + Math.log(sum);
}
