import { summarizeList } from '../../../util/summarize-list.ts';
import { type FloatType, isFloatType } from '../float-bytes.ts';
import { type TensorType, tensorTypes } from '../model-file.ts';
import { bytesOfRow } from '../rows.ts';
import type { ModelConfig } from './config.ts';
import {
  readExpertBiases,
  LastExpertCache,
  readPackedExperts,
  type ExpertRowSelection,
  readSeparateExperts,
  readStackedExperts,
  readTransposedExperts,
} from './expert-rows.ts';
import type { ExpertLayout, ModelFamily } from './family.ts';
import type { ConvertedTensor } from './convert-tensors.ts';
import type { RowReader } from './tensor-rows.ts';
import type { LocatedTensor } from './weight-files.ts';

type MatrixKind = 'gate' | 'up' | 'down';

interface ExpertTensor {
  readonly tensor: LocatedTensor;
  readonly layer: string;
  /** Absent where the tensor holds all experts. */
  readonly expert: number | undefined;
  readonly part: MatrixKind | 'gate_up';
  readonly kind: 'weight' | 'bias' | 'blocks' | 'scales';
}

interface ExpertTensors {
  readonly tensors: readonly ConvertedTensor[];
  /** Tensors that do not belong to experts. */
  readonly rest: readonly LocatedTensor[];
  readonly problems: readonly string[];
}

/**
 * Converts expert tensors to GGUF's `ffn_{gate,up,down}_exps` [experts, rows, columns]. A checkpoint has one tensor per
 * expert (transformers 4), one for all experts (transformers 5), or 4-bit blocks (gpt-oss).
 */
export const convertExperts = (
  stored: readonly LocatedTensor[],
  {
    family: { experts: layout, prefixes },
    config,
    layers,
  }: { family: ModelFamily; config: ModelConfig; layers: number },
): ExpertTensors => {
  if (!layout) return { tensors: [], rest: stored, problems: [] };
  const expertTensors: ExpertTensor[] = [];
  const rest: LocatedTensor[] = [];
  for (const tensor of stored) {
    const matrix = parseExpertTensor(tensor, layout, prefixes);
    if (matrix && Number(matrix.layer) < layers) expertTensors.push(matrix);
    else rest.push(tensor);
  }
  const converter = new ExpertConverter(layout, config.number('num_experts', 'num_local_experts'));
  const separate = Map.groupBy(
    expertTensors.filter(({ expert }) => expert !== undefined),
    ({ layer, part }) => `blk.${layer}.ffn_${part}_exps.weight`,
  );
  for (const [name, experts] of separate) converter.addSeparate(name, experts);
  for (const candidate of expertTensors) {
    if (candidate.expert !== undefined) continue;
    if (candidate.kind === 'weight') converter.addStacked(candidate);
    else if (candidate.kind === 'bias') converter.addBias(candidate);
    else converter.addPacked(candidate, expertTensors);
  }
  return { tensors: converter.tensors, rest, problems: converter.problems };
};

const parseExpertTensor = (
  tensor: LocatedTensor,
  { namePrefix: prefixPattern }: ExpertLayout,
  prefixes: readonly string[],
): ExpertTensor | undefined => {
  const [before = '', after = ''] = prefixPattern.split('#');
  for (const prefix of [...prefixes, '']) {
    if (!tensor.name.startsWith(prefix + before)) continue;
    const [, layer, rest] = /^(\d+)(.+)$/.exec(tensor.name.slice(prefix.length + before.length)) ?? [];
    if (layer === undefined || !rest?.startsWith(after)) continue;
    const name = rest.slice(after.length);
    const [, expert, matrix] = /^(\d+)\.(gate|up|down)_proj\.weight$/.exec(name) ?? [];
    if (expert !== undefined)
      return { tensor, layer, expert: Number(expert), part: matrix as MatrixKind, kind: 'weight' };
    const [, part, kind = 'weight'] =
      /^(gate_up|down)_proj(?:\.weight|_(bias|blocks|scales))?$/.exec(name) ?? [];
    if (part !== undefined) {
      return {
        tensor,
        layer,
        expert: undefined,
        part: part as ExpertTensor['part'],
        kind: kind as ExpertTensor['kind'],
      };
    }
  }
  return undefined;
};

const formatShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`;

/** Collects converted tensors and problems. */
class ExpertConverter {
  readonly tensors: ConvertedTensor[] = [];
  readonly problems: string[] = [];
  readonly #layout: ExpertLayout;
  readonly #experts: number;
  readonly #names = new Set<string>();
  readonly #lastExpertCache = new LastExpertCache();

  constructor(layout: ExpertLayout, experts: number) {
    this.#layout = layout;
    this.#experts = experts;
  }

  /** Adds a matrix that is stored as one tensor per expert. */
  addSeparate(name: string, expertTensors: readonly ExpertTensor[]): void {
    const experts: LocatedTensor[] = [];
    for (const { expert, tensor } of expertTensors) experts[expert as number] = tensor;
    const [{ tensor: first }] = expertTensors as [ExpertTensor];
    const missing = Array.from(
      { length: Math.min(this.#experts, expertTensors.length + 1) },
      (_, n) => n,
    ).filter((n) => !experts[n]);
    if (missing.length > 0 || expertTensors.length !== this.#experts) {
      const which = missing.length > 0 ? `, without expert ${summarizeList(missing.map(String))}` : '';
      this.#addProblem(
        first,
        `is one of ${expertTensors.length} experts, but config.json says ${this.#experts}${which}`,
      );
      return;
    }
    const { dtype, shape } = first;
    const [rows, columns] = shape;
    if (!isFloatType(dtype) || shape.length !== 2 || !rows || !columns) {
      this.#addProblem(first, `is ${dtype} ${formatShape(shape)}, not a matrix of F32, F16 or BF16`);
      return;
    }
    const other = experts.find(
      (candidate) => candidate.dtype !== dtype || formatShape(candidate.shape) !== formatShape(shape),
    );
    if (other) {
      this.#addProblem(
        other,
        `is ${other.dtype} ${formatShape(other.shape)}, but that of another expert is ${dtype} ${formatShape(shape)}`,
      );
      return;
    }
    const rowBytes = columns * tensorTypes[dtype].blockBytes;
    this.#add(
      name,
      first,
      { type: dtype, shape: [this.#experts, rows, columns] },
      readSeparateExperts(experts, { rows, rowBytes }),
    );
  }

  /** Adds matrices that are stored as one float tensor for all experts. */
  addStacked(expertTensor: ExpertTensor): void {
    const { isTransposed: columnsFirst = false } = this.#layout;
    const [experts, first, second] = expertTensor.tensor.shape;
    const [storedRows, columns] = columnsFirst ? [second, first] : [first, second];
    const type = this.#floatTypeOf(expertTensor, 3);
    if (!type || experts !== this.#experts || !storedRows || !columns)
      return this.#addShapeProblem(expertTensor);
    for (const { name, selection } of this.#listSelections(expertTensor, storedRows, 'weight')) {
      const rowLayout = { type, columns, selection };
      const read = columnsFirst
        ? readTransposedExperts(expertTensor.tensor, rowLayout, this.#lastExpertCache)
        : readStackedExperts(expertTensor.tensor, rowLayout);
      this.#add(name, expertTensor.tensor, { type, shape: [experts, selection.rows, columns] }, read);
    }
  }

  addBias(expertTensor: ExpertTensor): void {
    const [experts, storedRows] = expertTensor.tensor.shape;
    const type = this.#floatTypeOf(expertTensor, 2);
    if (!type || experts !== this.#experts || !storedRows) return this.#addShapeProblem(expertTensor);
    for (const { name, selection } of this.#listSelections(expertTensor, storedRows, 'bias')) {
      const shape = [experts, selection.rows] as const;
      this.#add(
        name,
        expertTensor.tensor,
        { type: 'F32', shape },
        readExpertBiases(expertTensor.tensor, type, selection),
      );
    }
  }

  /** Adds 4-bit blocks, whose exponents are stored in a separate tensor. */
  addPacked(expertTensor: ExpertTensor, all: readonly ExpertTensor[]): void {
    const expected = expertTensor.kind === 'blocks' ? 'scales' : 'blocks';
    const other = all.find(
      ({ layer, part, kind, expert }) =>
        layer === expertTensor.layer &&
        part === expertTensor.part &&
        kind === expected &&
        expert === undefined,
    )?.tensor;
    if (!other) return this.#addProblem(expertTensor.tensor, `has no matching ${expected} tensor`);
    if (expertTensor.kind === 'scales') return;
    const { tensor: blocks } = expertTensor;
    const [experts, storedRows, blocksPerRow, bytes] = blocks.shape;
    const fits = blocks.dtype === 'U8' && blocks.shape.length === 4 && bytes === 16;
    if (!fits || experts !== this.#experts || !storedRows || !blocksPerRow)
      return this.#addShapeProblem(expertTensor);
    if (
      other.dtype !== 'U8' ||
      formatShape(other.shape) !== formatShape([experts, storedRows, blocksPerRow])
    ) {
      return this.#addProblem(
        other,
        `is ${other.dtype} ${formatShape(other.shape)}, but its blocks are ${formatShape(blocks.shape)}`,
      );
    }
    const columns = blocksPerRow * tensorTypes.MXFP4.blockElements;
    for (const { name, selection } of this.#listSelections(expertTensor, storedRows, 'weight')) {
      const read = readPackedExperts({ blocks, scales: other }, selection, blocksPerRow);
      this.#add(name, blocks, { type: 'MXFP4', shape: [experts, selection.rows, columns] }, read);
    }
  }

  /** Lists the matrices that a tensor holds and the rows of each. */
  #listSelections(
    { layer, part }: ExpertTensor,
    storedRows: number,
    kind: string,
  ): { name: string; selection: ExpertRowSelection }[] {
    const name = (matrix: string) => `blk.${layer}.ffn_${matrix}_exps.${kind}`;
    if (part !== 'gate_up')
      return [{ name: name(part), selection: { storedRows, first: 0, step: 1, rows: storedRows } }];
    const rows = storedRows / 2;
    const [step, second] = this.#layout.gateUpOrder === 'turns' ? [2, 1] : [1, rows];
    return [
      { name: name('gate'), selection: { storedRows, first: 0, step, rows } },
      { name: name('up'), selection: { storedRows, first: second, step, rows } },
    ];
  }

  #floatTypeOf({ tensor: { dtype, shape } }: ExpertTensor, dimensions: number): FloatType | undefined {
    return isFloatType(dtype) && shape.length === dimensions ? dtype : undefined;
  }

  #add(
    name: string,
    from: LocatedTensor,
    { type, shape }: { type: TensorType; shape: readonly number[] },
    read: RowReader,
  ): void {
    if (this.#names.has(name)) return this.#addProblem(from, `maps to ${name}, as another tensor does`);
    if (!shape.every(Number.isInteger))
      return this.#addProblem(from, 'holds gate and up in an odd number of rows');
    this.#names.add(name);
    const rows = shape.slice(0, -1).reduce((product, extent) => product * extent, 1);
    const sizeBytes = rows * bytesOfRow({ type, shape });
    this.tensors.push({ info: { name, type, shape, offset: from.offset, sizeBytes }, read });
  }

  #addShapeProblem({ tensor, kind }: ExpertTensor): void {
    const expected = {
      weight: `F32, F16 or BF16 [${this.#experts}, ., .]`,
      bias: `F32, F16 or BF16 [${this.#experts}, .]`,
      blocks: `U8 [${this.#experts}, ., ., 16]`,
      scales: `U8 [${this.#experts}, ., .]`,
    }[kind];
    this.#addProblem(
      tensor,
      `is ${tensor.dtype} ${formatShape(tensor.shape)}, not ${expected} for all experts`,
    );
  }

  #addProblem({ name }: LocatedTensor, problem: string): void {
    this.problems.push(`'${name}' ${problem}`);
  }
}
