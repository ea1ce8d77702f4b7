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
    return { weight, biases: this.#isBiased(part) ? [this.vector(`${part}.bias`, rows)] : [] };
  }

  /** The same where layers are not alike: biased where it has a bias itself. */
  ownLinear(part: string, rows: number, columns: number): { weight: string; biases: readonly string[] } {
    const weight = this.matrix(`${part}.weight`, rows, columns);
    return { weight, biases: this.has(`${part}.bias`) ? [this.vector(`${part}.bias`, rows)] : [] };
  }

  /** The first layer stands for all: what it has, all must have. A bias of another one alone is not left out either. */
  #isBiased(part: string): boolean {
    return this.has(`${part.replace(/^blk\.\d+/, 'blk.0')}.bias`) || this.has(`${part}.bias`);
  }

  /** The matrices `<part>.weight` of all experts, and a list of their biases or nothing. */
  experts(
    part: string,
    { count, rows, columns }: { count: number; rows: number; columns: number },
  ): { weight: string; biases: readonly string[] } {
    const weight = `${part}.weight`;
    this.#expected.set(weight, [count, rows, columns]);
    if (!this.#isBiased(part)) return { weight, biases: [] };
    const bias = `${part}.bias`;
    this.#expected.set(bias, [count, rows]);
    return { weight, biases: [bias] };
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

  /** Of a layer: two matrices, or one of both with the rows of gate first (`ffn_up`). */
  gateUp(layer: number, rows: number, columns: number) {
    const name = (part: string) => `blk.${layer}.${part}`;
    const halves = ['ffn_gate', 'ffn_up'].map((part) => ({ part: name(part), rows }));
    const is = this.rows(name('ffn_up.weight')) === 2 * rows && !this.has(`${name('ffn_gate')}.weight`);
    return this.stacked(halves, { part: name('ffn_up'), is }, columns);
  }

  /** The matrix that logits come from: the table of embeddings where the file has no other. */
  output(rows: number, columns: number): string {
    return this.has('output.weight') ? this.matrix('output.weight', rows, columns) : 'token_embd.weight';
  }

  /** Refuses a file that lacks what was named; all problems at once. */
  require(): void {
    requireTensors(this.#file, this.#expected);
  }
}
