/**
 * Decides which units one kernel computes together. The graph says what is computed; fusion depends on what the
 * adapter's kernels support. Fused and unfused plans of a graph compute the same values.
 */
import type { PlanUnit } from './bindings.ts';
import type { Activation } from '../ops/gated-activation.ts';
import type { MatmulUnit } from '../ops/matmul.ts';
import type { GraphNode } from './graph.ts';

/** A unit as the plan runs it: alone or fused with others. */
export interface FusedOp {
  readonly unit: PlanUnit;
  /** The graph nodes that it computes, when they are more than the unit's own. */
  readonly nodes?: readonly GraphNode[];
  /** Embedding or product: the weight of the norm that follows, whose input it prepares. */
  readonly nextNormWeight?: string;
  /** Product: its input was prepared by the preceding op, and it divides by the RMS itself. */
  readonly appliesInputNorm?: boolean;
  /** Product of gate and up: the activation that it applies. */
  readonly gated?: Activation;
  /** Added norm: the factor that the sum is multiplied by. */
  readonly scale?: number;
  /** Added norm: the weight of the norm of the sum, which it computes as well. */
  readonly sumNormWeight?: string;
  /** Attention: for tiles of one token, it also runs the head norms, the rotation and the cache write. */
  readonly appliesRope?: boolean;
  /** With `appliesRope`: whether keys and values are written. */
  readonly writesCache?: boolean;
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
  isSinglePart(unit: MatmulUnit): boolean;
}

export function fuse(units: readonly PlanUnit[], limits: FusionLimits): FusedOp[] {
  const fusedOps: FusedOp[] = units.map((unit) => ({ unit }));
  joinActivations(fusedOps, limits);
  joinScales(fusedOps);
  joinNextNorms(fusedOps);
  if (limits.norms) joinNorms(fusedOps, limits);
  if (limits.rotation) joinRotations(fusedOps, limits);
  return fusedOps;
}

function joinActivations(fusedOps: FusedOp[], limits: FusionLimits): void {
  for (let i = 0; i + 1 < fusedOps.length; i++) {
    const { unit } = fusedOps[i] as FusedOp;
    if (unit.op !== 'matmul' || unit.to !== 'gate_up' || unit.biases.length > 0) continue;
    const next = fusedOps[i + 1]?.unit;
    if (next?.op !== 'gated_activation' || !limits.isSinglePart(unit)) continue;
    const nodes = [...unit.nodes, ...next.nodes];
    fusedOps.splice(i, 2, { unit, gated: next.activation, nodes });
  }
}

/** A norm that is added to the residual stream also scales the sum. */
function joinScales(fusedOps: FusedOp[]): void {
  for (let i = 0; i + 1 < fusedOps.length; i++) {
    const { unit } = fusedOps[i] as FusedOp;
    const next = fusedOps[i + 1]?.unit;
    if (unit.op !== 'norm_add' || next?.op !== 'scale') continue;
    fusedOps.splice(i, 2, { unit, scale: next.scale, nodes: [...unit.nodes, ...next.nodes] });
  }
}

/** The kernel that adds a norm to the residual stream holds a whole row, so it also computes the next norm. */
function joinNextNorms(fusedOps: FusedOp[]): void {
  for (let i = 0; i + 1 < fusedOps.length; i++) {
    const fusedOp = fusedOps[i] as FusedOp;
    const next = fusedOps[i + 1]?.unit;
    if (fusedOp.unit.op !== 'norm_add' || next?.op !== 'rms_norm') continue;
    if (next.from !== 'hidden' || next.to !== 'normed') continue;
    const nodes = [...(fusedOp.nodes ?? fusedOp.unit.nodes), ...next.nodes];
    fusedOps.splice(i, 2, { ...fusedOp, sumNormWeight: next.weight, nodes });
  }
}

/** Fuses a norm into its neighbors: the op that writes the residual stream, and the products that read the norm. */
function joinNorms(fusedOps: FusedOp[], limits: FusionLimits): void {
  for (let i = 0; i + 2 < fusedOps.length; i++) {
    const [writer, norm] = fusedOps.slice(i, i + 2) as [FusedOp, FusedOp];
    if (norm.unit.op !== 'rms_norm' || norm.unit.from !== 'hidden' || norm.unit.to !== 'normed') continue;
    const canPrepareNorm =
      writer.unit.op === 'embed' ||
      (writer.unit.op === 'matmul' && writer.unit.to === 'hidden' && limits.isSinglePart(writer.unit));
    const [first, ...others] = readersOfNormed(fusedOps, i + 2);
    if (!canPrepareNorm || first === undefined) continue;
    const nodes = [...norm.unit.nodes, ...(first.nodes ?? first.unit.nodes)];
    fusedOps.splice(
      i,
      3 + others.length,
      { ...writer, nextNormWeight: norm.unit.weight },
      { ...first, appliesInputNorm: true, nodes },
      ...others.map((other) => ({ ...other, appliesInputNorm: true })),
    );
  }
}

/** The products from index `from` on that read normed rows; none when other ops read them, too. */
function readersOfNormed(fusedOps: readonly FusedOp[], from: number): FusedOp[] {
  const readers: FusedOp[] = [];
  for (const fusedOp of fusedOps.slice(from)) {
    const { unit } = fusedOp;
    if (unit.op === 'lab' && unit.site.from === 'normed') return [];
    if (unit.op !== 'matmul' || unit.from !== 'normed') break;
    // The rest of a sliced product, or the experts that a router selects.
    if (unit.slice || unit.to === 'router') return [];
    readers.push(fusedOp);
  }
  return readers;
}

function joinRotations(fusedOps: FusedOp[], limits: FusionLimits): void {
  for (const [i, { unit }] of fusedOps.entries()) {
    const rotation = fusedOps[i - 1]?.unit;
    if (unit.op !== 'attention' || rotation?.op !== 'rope_kv_write') continue;
    const writesCache = rotation.cache !== undefined;
    const norms: Extract<PlanUnit, { op: 'head_norm' }>[] = [];
    for (let at = i - 2; at >= 0; at--) {
      const before = fusedOps[at]?.unit;
      if (before?.op !== 'head_norm') break;
      norms.unshift(before);
    }
    // Head norms of q and k, optionally v; of q alone when nothing is written.
    const parts = norms.map(({ part }) => part).join('');
    const fits = limits.headNorms && (writesCache ? parts === 'qk' || parts === 'qkv' : parts === 'q');
    // Norms and sinks together need more storage buffers than WebGPU guarantees.
    if (norms.length > 0 && !(fits && unit.sinks === undefined)) continue;
    const headNorms = norms.length > 0 ? norms.map(({ weight }) => weight) : undefined;
    for (let at = i - 1 - norms.length; at < i; at++)
      fusedOps[at] = { ...(fusedOps[at] as FusedOp), promptOnly: true };
    const nodes = fusedOps.slice(i - 1 - norms.length, i + 1).flatMap((fusedOp) => fusedOp.unit.nodes);
    fusedOps[i] = { unit, appliesRope: true, writesCache, headNorms, nodes };
  }
}
