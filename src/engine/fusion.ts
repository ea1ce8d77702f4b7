/**
 * Decides which units one kernel computes together. The graph says what is computed; fusion depends on what the
 * adapter's kernels support. Fused and unfused plans of a graph compute the same values.
 */
import type { PlanUnit } from './bindings.ts';
import type { Activation, GraphNode, MatmulUnit } from './graph.ts';

/** A unit as the plan runs it: alone or fused with others. */
export interface Work {
  readonly unit: PlanUnit;
  /** The graph nodes that it computes, when they are more than the unit's own. */
  readonly nodes?: readonly GraphNode[];
  /** Embedding or product: the weight of the norm that follows, whose input it prepares. */
  readonly gain?: string;
  /** Product: its input was prepared by the preceding op, and it divides by the RMS itself. */
  readonly normIn?: boolean;
  /** Product of gate and up: the activation that it applies. */
  readonly gated?: Activation;
  /** Added norm: the factor that the sum is multiplied by. */
  readonly scale?: number;
  /** Added norm: the weight of the norm of the sum, which it computes as well. */
  readonly next?: string;
  /** Attention: for tiles of one token, it also runs the head norms, the rotation and the cache write. */
  readonly rotates?: boolean;
  /** With `appliesRope`: whether keys and values are written. */
  readonly writes?: boolean;
  /** With `appliesRope`: weights of the head norms of q; of q and k; or of q, k and v. */
  readonly headNorms?: readonly string[] | undefined;
  /** Head norm and rotation: only for tokens whose rotation attention does not do itself. */
  readonly promptOnly?: boolean;
}

/** Fusions that the adapter's kernels support. */
export interface FusionLimits {
  /** Norms with the products around them. */
  readonly norms: boolean;
  /** Rotation with attention; with `headNorms`, also the head norms before it. */
  readonly rotation: boolean;
  readonly headNorms: boolean;
  /** True when the product's stacked weights are one part of one type. */
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

/** A norm that is added to the residual stream also scales the sum. */
function joinScales(works: Work[]): void {
  for (let i = 0; i + 1 < works.length; i++) {
    const { unit } = works[i] as Work;
    const next = works[i + 1]?.unit;
    if (unit.op !== 'norm_add' || next?.op !== 'scale') continue;
    works.splice(i, 2, { unit, scale: next.scale, nodes: [...unit.nodes, ...next.nodes] });
  }
}

/** The kernel that adds a norm to the residual stream holds a whole row, so it also computes the next norm. */
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

/** Fuses a norm into its neighbors: the op that writes the residual stream, and the products that read the norm. */
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

/** The products from index `from` on that read normed rows; none when other ops read them, too. */
function readersOfNormed(works: readonly Work[], from: number): Work[] {
  const readers: Work[] = [];
  for (const work of works.slice(from)) {
    const { unit } = work;
    if (unit.op === 'lab' && 'from' in unit.site && unit.site.from === 'normed') return [];
    if (unit.op !== 'matmul' || unit.from !== 'normed') break;
    // The rest of a sliced product, or the experts that a router selects.
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
    // Head norms of q and k, optionally v; of q alone when nothing is written.
    const of = norms.map(({ part }) => part).join('');
    const fits = limits.headNorms && (writes ? of === 'qk' || of === 'qkv' : of === 'q');
    // Norms and sinks together need more storage buffers than WebGPU guarantees.
    if (norms.length > 0 && !(fits && unit.sinks === undefined)) continue;
    const headNorms = norms.length > 0 ? norms.map(({ weight }) => weight) : undefined;
    for (let at = i - 1 - norms.length; at < i; at++)
      works[at] = { ...(works[at] as Work), promptOnly: true };
    const nodes = works.slice(i - 1 - norms.length, i + 1).flatMap((work) => work.unit.nodes);
    works[i] = { unit, rotates: true, writes, headNorms, nodes };
  }
}
