import { few } from '../../few.ts';
import { type FloatType, isFloatType } from '../float-bytes.ts';
import { type TensorType, tensorTypes } from '../model-file.ts';
import { bytesOfRow } from '../rows.ts';
import type { Config } from './config.ts';
import {
  biasRows,
  LastExpert,
  packedRows,
  type Pick,
  separateRows,
  stackedRows,
  turnedRows,
} from './expert-rows.ts';
import type { ExpertLayout, Family } from './family.ts';
import type { Presented } from './present.ts';
import type { ReadRows } from './tensor-rows.ts';
import type { LocatedTensor } from './weight-files.ts';

type Part = 'gate' | 'up' | 'down';

interface Found {
  readonly tensor: LocatedTensor;
  readonly layer: string;
  /** Absent where the tensor holds all experts. */
  readonly expert: number | undefined;
  readonly part: Part | 'gate_up';
  readonly kind: 'weight' | 'bias' | 'blocks' | 'scales';
}

interface Experts {
  readonly tensors: readonly Presented[];
  /** Tensors that do not belong to experts. */
  readonly rest: readonly LocatedTensor[];
  readonly problems: readonly string[];
}

/**
 * Converts expert tensors to GGUF's `ffn_{gate,up,down}_exps` [experts, rows, columns]. A checkpoint has one tensor per
 * expert (transformers 4), one for all experts (transformers 5), or 4-bit blocks (gpt-oss).
 */
export const presentExperts = (
  stored: readonly LocatedTensor[],
  {
    family: { experts: layout, prefixes },
    config,
    layers,
  }: { family: Family; config: Config; layers: number },
): Experts => {
  if (!layout) return { tensors: [], rest: stored, problems: [] };
  const found: Found[] = [];
  const rest: LocatedTensor[] = [];
  for (const tensor of stored) {
    const own = findExpert(tensor, layout, prefixes);
    if (own && Number(own.layer) < layers) found.push(own);
    else rest.push(tensor);
  }
  const presenter = new Presenter(layout, config.number('num_experts', 'num_local_experts'));
  const separate = Map.groupBy(
    found.filter(({ expert }) => expert !== undefined),
    ({ layer, part }) => `blk.${layer}.ffn_${part}_exps.weight`,
  );
  for (const [name, experts] of separate) presenter.separate(name, experts);
  for (const one of found) {
    if (one.expert !== undefined) continue;
    if (one.kind === 'weight') presenter.stacked(one);
    else if (one.kind === 'bias') presenter.bias(one);
    else presenter.packed(one, found);
  }
  return { tensors: presenter.tensors, rest, problems: presenter.problems };
};

const findExpert = (
  tensor: LocatedTensor,
  { at }: ExpertLayout,
  prefixes: readonly string[],
): Found | undefined => {
  const [before = '', after = ''] = at.split('#');
  for (const prefix of [...prefixes, '']) {
    if (!tensor.name.startsWith(prefix + before)) continue;
    const [, layer, rest] = /^(\d+)(.+)$/.exec(tensor.name.slice(prefix.length + before.length)) ?? [];
    if (layer === undefined || !rest?.startsWith(after)) continue;
    const name = rest.slice(after.length);
    const [, expert, own] = /^(\d+)\.(gate|up|down)_proj\.weight$/.exec(name) ?? [];
    if (expert !== undefined)
      return { tensor, layer, expert: Number(expert), part: own as Part, kind: 'weight' };
    const [, part, kind = 'weight'] =
      /^(gate_up|down)_proj(?:\.weight|_(bias|blocks|scales))?$/.exec(name) ?? [];
    if (part !== undefined) {
      return {
        tensor,
        layer,
        expert: undefined,
        part: part as Found['part'],
        kind: kind as Found['kind'],
      };
    }
  }
  return undefined;
};

const shapeText = (shape: readonly number[]): string => `[${shape.join(', ')}]`;

/** Collects converted tensors and problems. */
class Presenter {
  readonly tensors: Presented[] = [];
  readonly problems: string[] = [];
  readonly #layout: ExpertLayout;
  readonly #experts: number;
  readonly #names = new Set<string>();
  readonly #last = new LastExpert();

  constructor(layout: ExpertLayout, experts: number) {
    this.#layout = layout;
    this.#experts = experts;
  }

  /** Adds a matrix that is stored as one tensor per expert. */
  separate(name: string, found: readonly Found[]): void {
    const experts: LocatedTensor[] = [];
    for (const { expert, tensor } of found) experts[expert as number] = tensor;
    const [{ tensor: first }] = found as [Found];
    const missing = Array.from({ length: Math.min(this.#experts, found.length + 1) }, (_, n) => n).filter(
      (n) => !experts[n],
    );
    if (missing.length > 0 || found.length !== this.#experts) {
      const which = missing.length > 0 ? `, without expert ${few(missing.map(String))}` : '';
      this.#refuse(first, `is one of ${found.length} experts, but config.json says ${this.#experts}${which}`);
      return;
    }
    const { dtype, shape } = first;
    const [rows, columns] = shape;
    if (!isFloatType(dtype) || shape.length !== 2 || !rows || !columns) {
      this.#refuse(first, `is ${dtype} ${shapeText(shape)}, not a matrix of F32, F16 or BF16`);
      return;
    }
    const other = experts.find((one) => one.dtype !== dtype || shapeText(one.shape) !== shapeText(shape));
    if (other) {
      this.#refuse(
        other,
        `is ${other.dtype} ${shapeText(other.shape)}, but that of another expert is ${dtype} ${shapeText(shape)}`,
      );
      return;
    }
    const rowBytes = columns * tensorTypes[dtype].blockBytes;
    this.#add(
      name,
      first,
      { type: dtype, shape: [this.#experts, rows, columns] },
      separateRows(experts, { rows, rowBytes }),
    );
  }

  /** Adds matrices that are stored as one float tensor for all experts. */
  stacked(found: Found): void {
    const { columnsFirst = false } = this.#layout;
    const [experts, first, second] = found.tensor.shape;
    const [of, columns] = columnsFirst ? [second, first] : [first, second];
    const type = this.#floatsOf(found, 3);
    if (!type || experts !== this.#experts || !of || !columns) return this.#refuseShape(found);
    for (const { name, pick } of this.#picks(found, of, 'weight')) {
      const about = { type, columns, pick };
      const read = columnsFirst
        ? turnedRows(found.tensor, about, this.#last)
        : stackedRows(found.tensor, about);
      this.#add(name, found.tensor, { type, shape: [experts, pick.rows, columns] }, read);
    }
  }

  bias(found: Found): void {
    const [experts, of] = found.tensor.shape;
    const type = this.#floatsOf(found, 2);
    if (!type || experts !== this.#experts || !of) return this.#refuseShape(found);
    for (const { name, pick } of this.#picks(found, of, 'bias')) {
      const shape = [experts, pick.rows] as const;
      this.#add(name, found.tensor, { type: 'F32', shape }, biasRows(found.tensor, type, pick));
    }
  }

  /** Adds 4-bit blocks, whose exponents are stored in a separate tensor. */
  packed(found: Found, all: readonly Found[]): void {
    const wanted = found.kind === 'blocks' ? 'scales' : 'blocks';
    const other = all.find(
      ({ layer, part, kind, expert }) =>
        layer === found.layer && part === found.part && kind === wanted && expert === undefined,
    )?.tensor;
    if (!other) return this.#refuse(found.tensor, `has no matching ${wanted} tensor`);
    if (found.kind === 'scales') return;
    const { tensor: blocks } = found;
    const [experts, of, blocksOfRow, bytes] = blocks.shape;
    const fits = blocks.dtype === 'U8' && blocks.shape.length === 4 && bytes === 16;
    if (!fits || experts !== this.#experts || !of || !blocksOfRow) return this.#refuseShape(found);
    if (other.dtype !== 'U8' || shapeText(other.shape) !== shapeText([experts, of, blocksOfRow])) {
      return this.#refuse(
        other,
        `is ${other.dtype} ${shapeText(other.shape)}, but its blocks are ${shapeText(blocks.shape)}`,
      );
    }
    const columns = blocksOfRow * tensorTypes.MXFP4.blockElements;
    for (const { name, pick } of this.#picks(found, of, 'weight')) {
      const read = packedRows({ blocks, scales: other }, pick, blocksOfRow);
      this.#add(name, blocks, { type: 'MXFP4', shape: [experts, pick.rows, columns] }, read);
    }
  }

  /** Lists the matrices that a tensor holds and the rows of each. */
  #picks({ layer, part }: Found, of: number, kind: string): { name: string; pick: Pick }[] {
    const name = (own: string) => `blk.${layer}.ffn_${own}_exps.${kind}`;
    if (part !== 'gate_up') return [{ name: name(part), pick: { of, first: 0, step: 1, rows: of } }];
    const rows = of / 2;
    const [step, second] = this.#layout.gateUp === 'turns' ? [2, 1] : [1, rows];
    return [
      { name: name('gate'), pick: { of, first: 0, step, rows } },
      { name: name('up'), pick: { of, first: second, step, rows } },
    ];
  }

  #floatsOf({ tensor: { dtype, shape } }: Found, dimensions: number): FloatType | undefined {
    return isFloatType(dtype) && shape.length === dimensions ? dtype : undefined;
  }

  #add(
    name: string,
    from: LocatedTensor,
    { type, shape }: { type: TensorType; shape: readonly number[] },
    read: ReadRows,
  ): void {
    if (this.#names.has(name)) return this.#refuse(from, `maps to ${name}, as another tensor does`);
    if (!shape.every(Number.isInteger))
      return this.#refuse(from, 'holds gate and up in an odd number of rows');
    this.#names.add(name);
    const rows = shape.slice(0, -1).reduce((product, extent) => product * extent, 1);
    const sizeBytes = rows * bytesOfRow({ type, shape });
    this.tensors.push({ info: { name, type, shape, offset: from.offset, sizeBytes }, read });
  }

  #refuseShape({ tensor, kind }: Found): void {
    const wanted = {
      weight: `F32, F16 or BF16 [${this.#experts}, ., .]`,
      bias: `F32, F16 or BF16 [${this.#experts}, .]`,
      blocks: `U8 [${this.#experts}, ., ., 16]`,
      scales: `U8 [${this.#experts}, ., .]`,
    }[kind];
    this.#refuse(tensor, `is ${tensor.dtype} ${shapeText(tensor.shape)}, not ${wanted} for all experts`);
  }

  #refuse({ name }: LocatedTensor, problem: string): void {
    this.problems.push(`'${name}' ${problem}`);
  }
}
