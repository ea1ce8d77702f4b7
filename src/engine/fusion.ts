/**
 * Which units a plan joins. The graph says what is computed; here it is decided what one kernel takes over, by what
 * the adapter's kernels can do. An unfused plan of the same graph computes the same.
 */
import type { PlanUnit } from './bindings.ts';
import type { Activation, GraphNode, MatmulUnit } from './graph.ts';

/** A unit as the plan runs it. */
export interface Work {
  readonly unit: PlanUnit;
  /** What it computes, when that is more than the unit's own nodes. */
  readonly nodes?: readonly GraphNode[];
  /** Embedding or product: the weight of the norm that follows, whose input it prepares. */
  readonly gain?: string;
  /** Product: its input was prepared so, and it divides by the RMS itself. */
  readonly normIn?: boolean;
  /** Product of gate and up: with the activation. */
  readonly gated?: Activation;
  /** Norm that is added: what the sum is multiplied by. */
  readonly scale?: number;
  /** Norm that is added: the weight of the norm of the sum, which it computes, too. */
  readonly next?: string;
  /** Attention: of tiles of one token it also does what head norms, rotation and cache write do for the others. */
  readonly rotates?: boolean;
  /** Then: whether there is a key and a value to write. */
  readonly writes?: boolean;
  /** The weights of the head norms of q, of q and k, or of q, k and v, then. */
  readonly headNorms?: readonly string[] | undefined;
  /** Head norm, rotation: only of the tokens that attention does not rotate itself. */
  readonly promptOnly?: boolean;
}

/** What the kernels of this adapter can join. */
export interface FusionLimits {
  /** Norms with the products around them. */
  readonly norms: boolean;
  /** Rotation with attention; with head norms before it when `headNorms`. */
  readonly rotation: boolean;
  readonly headNorms: boolean;
  /** The product is of a whole stack of weights, which lie in one piece of one type. */
  isWhole(unit: MatmulUnit): boolean;
}

export function fuse(units: readonly PlanUnit[], limits: FusionLimits): Work[] {
  const works: Work[] = units.map((unit) => ({ unit }));
  joinActivations(works, limits);
  joinScales(works);
  joinNextNorms(works);
  if (limits.norms) joinNorms(works, limits);
  if (limits.rotation) joinRotations(works, limits);
  return works;
}

function joinActivations(works: Work[], limits: FusionLimits): void {
  for (let i = 0; i + 1 < works.length; i++) {
    const { unit } = works[i] as Work;
    if (unit.op !== 'matmul' || unit.to !== 'gate_up' || unit.biases.length > 0) continue;
    const next = works[i + 1]?.unit;
    if (next?.op !== 'gated_activation' || !limits.isWhole(unit)) continue;
    const nodes = [...unit.nodes, ...next.nodes];
    works.splice(i, 2, { unit, gated: next.activation, nodes });
  }
}

/** Who adds a norm to the residual stream multiplies the sum as well. */
function joinScales(works: Work[]): void {
  for (let i = 0; i + 1 < works.length; i++) {
    const { unit } = works[i] as Work;
    const next = works[i + 1]?.unit;
    if (unit.op !== 'norm_add' || next?.op !== 'scale') continue;
    works.splice(i, 2, { unit, scale: next.scale, nodes: [...unit.nodes, ...next.nodes] });
  }
}

/** Who adds a norm to the residual stream holds a whole row of it, so it computes the next norm as well. */
function joinNextNorms(works: Work[]): void {
  for (let i = 0; i + 1 < works.length; i++) {
    const work = works[i] as Work;
    const next = works[i + 1]?.unit;
    if (work.unit.op !== 'norm_add' || next?.op !== 'rms_norm') continue;
    if (next.from !== 'hidden' || next.to !== 'normed') continue;
    const nodes = [...(work.nodes ?? work.unit.nodes), ...next.nodes];
    works.splice(i, 2, { ...work, next: next.weight, nodes });
  }
}

/** Writer of the residual stream, norm, products: the norm vanishes between them. */
function joinNorms(works: Work[], limits: FusionLimits): void {
  for (let i = 0; i + 2 < works.length; i++) {
    const [writer, norm] = works.slice(i, i + 2) as [Work, Work];
    if (norm.unit.op !== 'rms_norm' || norm.unit.from !== 'hidden' || norm.unit.to !== 'normed') continue;
    const writes =
      writer.unit.op === 'embed' ||
      (writer.unit.op === 'matmul' && writer.unit.to === 'hidden' && limits.isWhole(writer.unit));
    const [first, ...others] = readersOfNormed(works, i + 2);
    if (!writes || first === undefined) continue;
    const nodes = [...norm.unit.nodes, ...(first.nodes ?? first.unit.nodes)];
    works.splice(
      i,
      3 + others.length,
      { ...writer, gain: norm.unit.weight },
      { ...first, normIn: true, nodes },
      ...others.map((other) => ({ ...other, normIn: true })),
    );
  }
}

/** The products that read normed rows from a place on; none where others read them, too. */
function readersOfNormed(works: readonly Work[], from: number): Work[] {
  const readers: Work[] = [];
  for (const work of works.slice(from)) {
    const { unit } = work;
    if (unit.op === 'lab' && 'from' in unit.site && unit.site.from === 'normed') return [];
    if (unit.op !== 'matmul' || unit.from !== 'normed') break;
    // More of the product, or the experts that it chooses among.
    if (unit.slice || unit.to === 'router') return [];
    readers.push(work);
  }
  return readers;
}

function joinRotations(works: Work[], limits: FusionLimits): void {
  for (const [i, { unit }] of works.entries()) {
    const rotation = works[i - 1]?.unit;
    if (unit.op !== 'attention' || rotation?.op !== 'rope_kv_write') continue;
    const writes = rotation.cache !== undefined;
    const norms: Extract<PlanUnit, { op: 'head_norm' }>[] = [];
    for (let at = i - 2; at >= 0; at--) {
      const before = works[at]?.unit;
      if (before?.op !== 'head_norm') break;
      norms.unshift(before);
    }
    // Of q and k, and maybe v; where nothing is written, of q alone.
    const of = norms.map(({ part }) => part).join('');
    const fits = limits.headNorms && (writes ? of === 'qk' || of === 'qkv' : of === 'q');
    // Norms and sinks are more buffers than WebGPU promises.
    if (norms.length > 0 && !(fits && unit.sinks === undefined)) continue;
    const headNorms = norms.length > 0 ? norms.map(({ weight }) => weight) : undefined;
    for (let at = i - 1 - norms.length; at < i; at++)
      works[at] = { ...(works[at] as Work), promptOnly: true };
    const nodes = works.slice(i - 1 - norms.length, i + 1).flatMap((work) => work.unit.nodes);
    works[i] = { unit, rotates: true, writes, headNorms, nodes };
  }
}
