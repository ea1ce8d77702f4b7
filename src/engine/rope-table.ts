import type { Rope } from './graph.ts';

/** [positions, rotary / 2] of (cos, sin), computed in double: a GPU's sin has few digits at large angles. */
export function ropeTable(rope: Rope, positions: number): Float32Array<ArrayBuffer> {
  const pairs = rope.rotary / 2;
  const table = new Float32Array(positions * pairs * 2);
  for (let i = 0; i < pairs; i++) {
    const frequency = rope.theta ** (-i / pairs) / (rope.factors?.[i] ?? 1) / rope.scale;
    for (let position = 0; position < positions; position++) {
      const at = (position * pairs + i) * 2;
      table[at] = Math.cos(position * frequency);
      table[at + 1] = Math.sin(position * frequency);
    }
  }
  return table;
}
