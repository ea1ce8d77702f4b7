import type { Rope } from '../graph/graph.ts';

/**
 * Table of (cos, sin) for [positions, rotary / 2], computed in double precision, because the sine of a GPU is
 * inaccurate at large angles.
 * @param positions length of the served context, which selects between short and long LongRoPE divisors
 */
export function ropeTable(rope: Rope, positions: number): Float32Array<ArrayBuffer> {
  const { theta, rotary, scale, long, magnitude } = rope;
  const pairs = rotary / 2;
  const factors = long && positions > long.beyond ? long.factors : rope.factors;
  const table = new Float32Array(positions * pairs * 2);
  for (let i = 0; i < pairs; i++) {
    const frequency = theta ** (-i / pairs) / (factors?.[i] ?? 1) / scale;
    for (let position = 0; position < positions; position++) {
      const at = (position * pairs + i) * 2;
      table[at] = Math.cos(position * frequency) * magnitude;
      table[at + 1] = Math.sin(position * frequency) * magnitude;
    }
  }
  return table;
}
