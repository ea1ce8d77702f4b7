import type { ModelFile } from '../formats/model-file.ts';
import { requireTensors } from './metadata.ts';

/** Names and shapes of the tensors that a forward pass is made of, collected while it is written down. */
export class Tensors {
  readonly #file: ModelFile;
  readonly #expected = new Map<string, readonly number[]>();

  constructor(file: ModelFile) {
    this.#file = file;
  }

  has(name: string): boolean {
    return this.#file.tensors.has(name);
  }

  /** Rows of a matrix, 0 where the file has none. */
  rows(name: string): number {
    return this.#file.tensors.get(name)?.shape[0] ?? 0;
  }

  vector(name: string, length: number): string {
    this.#expected.set(name, [length]);
    return name;
  }

  matrix(name: string, rows: number, columns: number): string {
    this.#expected.set(name, [rows, columns]);
    return name;
  }

  /** The matrix `<part>.weight`, and a list of its bias or nothing. */
  linear(part: string, rows: number, columns: number): { weight: string; biases: readonly string[] } {
    const weight = this.matrix(`${part}.weight`, rows, columns);
    // The first layer stands for all.
    const biased = this.has(`${part.replace(/^blk\.\d+/, 'blk.0')}.bias`);
    return { weight, biases: biased ? [this.vector(`${part}.bias`, rows)] : [] };
  }

  /** Matrices of one product: as parts of their own, or as one. */
  stacked(
    parts: readonly { part: string; rows: number }[],
    together: { part: string; is: boolean },
    columns: number,
  ): { weights: readonly string[]; biases: readonly string[] } {
    const rows = parts.reduce((sum, one) => sum + one.rows, 0);
    const list = together.is
      ? [this.linear(together.part, rows, columns)]
      : parts.map((one) => this.linear(one.part, one.rows, columns));
    return { weights: list.map(({ weight }) => weight), biases: list.flatMap(({ biases }) => biases) };
  }

  /** Of a layer: three matrices, or `attn_qkv`. */
  qkv(layer: number, rows: { q: number; k: number; v: number }, columns: number) {
    const name = (part: string) => `blk.${layer}.attn_${part}`;
    const parts = Object.entries(rows).map(([part, count]) => ({ part: name(part), rows: count }));
    return this.stacked(parts, { part: name('qkv'), is: this.has(`${name('qkv')}.weight`) }, columns);
  }

  /** Refuses a file that lacks what was named; all problems at once. */
  require(): void {
    requireTensors(this.#file, this.#expected);
  }
}
