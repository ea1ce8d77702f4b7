import type { ModelFile } from '../formats/model-file.ts';
import { requireTensors } from './metadata.ts';

/** Collects names and shapes of the tensors that a graph uses while it is built, to check them at the end. */
export class Tensors {
  readonly #file: ModelFile;
  readonly #expected = new Map<string, readonly number[]>();

  constructor(file: ModelFile) {
    this.#file = file;
  }

  has(name: string): boolean {
    return this.#file.tensors.has(name);
  }

  /** Number of rows of a matrix; 0 when the file does not have it. */
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

  /** The matrix `<part>.weight`, and a list with its bias, if any. */
  linear(part: string, rows: number, columns: number): { weight: string; biases: readonly string[] } {
    const weight = this.matrix(`${part}.weight`, rows, columns);
    return { weight, biases: this.#isBiased(part) ? [this.vector(`${part}.bias`, rows)] : [] };
  }

  /** The same for layers that differ: biased when this layer has a bias. */
  layerLinear(part: string, rows: number, columns: number): { weight: string; biases: readonly string[] } {
    const weight = this.matrix(`${part}.weight`, rows, columns);
    return { weight, biases: this.has(`${part}.bias`) ? [this.vector(`${part}.bias`, rows)] : [] };
  }

  /**
   * Biased when the first layer is, because all layers must be alike, or when this layer has a bias, so that none is
   * ignored.
   */
  #isBiased(part: string): boolean {
    return this.has(`${part.replace(/^blk\.\d+/, 'blk.0')}.bias`) || this.has(`${part}.bias`);
  }

  /** The matrix `<part>.weight` of all experts, and a list with their biases, if any. */
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

  /** Matrices of one product: separate tensors, or one merged tensor. */
  stackedLinear(
    parts: readonly { part: string; rows: number }[],
    merged: { part: string; isMerged: boolean },
    columns: number,
  ): { weights: readonly string[]; biases: readonly string[] } {
    const rows = parts.reduce((sum, one) => sum + one.rows, 0);
    const list = merged.isMerged
      ? [this.linear(merged.part, rows, columns)]
      : parts.map((one) => this.linear(one.part, one.rows, columns));
    return { weights: list.map(({ weight }) => weight), biases: list.flatMap(({ biases }) => biases) };
  }

  /** q, k and v of a layer: three matrices, or `attn_qkv`. */
  qkv(layer: number, rows: { q: number; k: number; v: number }, columns: number) {
    const name = (part: string) => `blk.${layer}.attn_${part}`;
    const parts = Object.entries(rows).map(([part, count]) => ({ part: name(part), rows: count }));
    return this.stackedLinear(
      parts,
      { part: name('qkv'), isMerged: this.has(`${name('qkv')}.weight`) },
      columns,
    );
  }

  /** Gate and up of a layer: two matrices, or one with the rows of gate first (`ffn_up`). */
  gateUp(layer: number, rows: number, columns: number) {
    const name = (part: string) => `blk.${layer}.${part}`;
    const halves = ['ffn_gate', 'ffn_up'].map((part) => ({ part: name(part), rows }));
    const isMerged = this.rows(name('ffn_up.weight')) === 2 * rows && !this.has(`${name('ffn_gate')}.weight`);
    return this.stackedLinear(halves, { part: name('ffn_up'), isMerged }, columns);
  }

  /** The output projection: the embedding table when the file has no separate matrix. */
  output(rows: number, columns: number): string {
    return this.has('output.weight') ? this.matrix('output.weight', rows, columns) : 'token_embd.weight';
  }

  /** Checks that the file has all named tensors. @throws ModelFileError `bad_tensors` with all problems at once */
  requireAll(): void {
    requireTensors(this.#file, this.#expected);
  }
}
