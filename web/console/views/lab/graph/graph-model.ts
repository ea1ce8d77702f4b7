/** View model of the live graph: dispatches, their GPU times, and collapsed layers. */
import type { components } from '../../../../api/schema.d.ts';

export type LabGraph = components['schemas']['LabGraph'];
export type GraphNode = LabGraph['nodes'][number];
export type Span = LabGraph['spans'][number];

/** The nodes that one dispatch computes. */
export interface Unit {
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly kernel: string;
  /** GPU time; absent when not measured. */
  readonly ms?: number;
  /** Share of the total GPU time, 0 to 1. */
  readonly share?: number;
}

export interface Times {
  readonly units: ReadonlyMap<string, Unit>;
  /** GPU time of one decoded token, as far as it is measured. */
  readonly totalMs: number;
  readonly isMeasured: boolean;
  readonly maxShare: number;
}

export function timesOf({ nodes }: LabGraph): Times {
  const groups = [...Map.groupBy(nodes, ({ component }) => component)];
  const msOf = (all: readonly GraphNode[]) => all.find((node) => node.gpu_ms !== undefined)?.gpu_ms;
  const totalMs = groups.reduce((sum, [, all]) => sum + (msOf(all) ?? 0), 0);
  const units = new Map(
    groups.map(([id, all]): [string, Unit] => {
      const ms = msOf(all);
      const timing = ms === undefined ? {} : { ms, share: totalMs === 0 ? 0 : ms / totalMs };
      return [id, { id, nodes: all, kernel: all[0]?.kernel ?? '', ...timing }];
    }),
  );
  const shares = [...units.values()].map(({ share = 0 }) => share);
  return {
    units,
    totalMs,
    isMeasured: nodes.some((node) => node.gpu_ms !== undefined),
    maxShare: Math.max(0, ...shares),
  };
}

/** Layer index of a node id; undefined outside the layers. */
export function layerOf(id: string): number | undefined {
  const [, layer] = /^layers\.(\d+)\./.exec(id) ?? [];
  return layer === undefined ? undefined : Number(layer);
}

export const layersOf = ({ nodes }: LabGraph): number[] =>
  [...new Set(nodes.flatMap(({ id }) => layerOf(id) ?? []))].sort((a, b) => a - b);

/** A node id without its layer prefix. */
export const shortId = (id: string): string => id.replace(/^layers\.\d+\./, '');

/** Slot of a component: `layers.3.attn.q` becomes `layers.*.attn.q`. */
export const slotOf = (id: string): string => id.replace(/^layers\.\d+\./, 'layers.*.');

export interface KernelName {
  readonly name: string;
  /** Compiled variant of a built-in kernel. */
  readonly variant?: string;
  readonly isBuiltin: boolean;
}

export function kernelName(kernel: string): KernelName {
  const [, name, variant] = /^builtin:?([^?]*)\??(.*)$/.exec(kernel) ?? [];
  if (name === undefined) return { name: kernel, isBuiltin: false };
  return { name: name === '' ? 'built-in' : name, isBuiltin: true, ...(variant ? { variant } : {}) };
}

/** Kernel names without duplicates, registered kernels first. */
export function kernelsOf({ nodes }: LabGraph): readonly KernelName[] {
  const namesSeen = new Map<string, KernelName>();
  for (const { kernel } of nodes) {
    const { name, isBuiltin } = kernelName(kernel);
    if (!namesSeen.has(name)) namesSeen.set(name, { name, isBuiltin });
  }
  return [...namesSeen.values()].sort((a, b) => Number(a.isBuiltin) - Number(b.isBuiltin));
}

/** A range of collapsed layers. */
export interface Fold {
  readonly id: string;
  readonly first: number;
  readonly last: number;
  readonly nodes: number;
  readonly ms?: number;
  readonly share?: number;
  /** Registered kernels bound in these layers. */
  readonly kernels: readonly string[];
}

/** What is drawn: nodes outside the layers, one expanded layer, and the collapsed others. */
export interface FoldedGraph {
  readonly outside: readonly GraphNode[];
  readonly open: { readonly layer: number; readonly nodes: readonly GraphNode[] } | undefined;
  readonly folds: readonly Fold[];
}

export function foldGraph(graph: LabGraph, times: Times, open: number | undefined): FoldedGraph {
  const byLayer = Map.groupBy(graph.nodes, ({ id }) => layerOf(id) ?? -1);
  const layers = layersOf(graph);
  const inside = open === undefined ? undefined : byLayer.get(open);
  const runs = [
    layers.filter((layer) => !inside || layer < (open ?? 0)),
    layers.filter((layer) => inside && layer > (open ?? 0)),
  ];
  return {
    outside: byLayer.get(-1) ?? [],
    open: inside && open !== undefined ? { layer: open, nodes: inside } : undefined,
    folds: runs.filter((run) => run.length > 0).map((run) => foldLayers(run, byLayer, times)),
  };
}

function foldLayers(layerRun: readonly number[], byLayer: Map<number, GraphNode[]>, times: Times): Fold {
  const [first = 0, last = first] = [layerRun[0], layerRun.at(-1)];
  const nodes = layerRun.flatMap((layer) => byLayer.get(layer) ?? []);
  const units = [...new Set(nodes.map(({ component }) => component))].flatMap(
    (id) => times.units.get(id) ?? [],
  );
  const sum = (member: 'ms' | 'share') => units.reduce((all, unit) => all + (unit[member] ?? 0), 0);
  return {
    id: `fold ${first}-${last}`,
    first,
    last,
    nodes: nodes.length,
    ...(times.isMeasured ? { ms: sum('ms'), share: sum('share') } : {}),
    kernels: [
      ...new Set(
        nodes
          .map(({ kernel }) => kernelName(kernel))
          .filter(({ isBuiltin }) => !isBuiltin)
          .map(({ name }) => name),
      ),
    ],
  };
}

export const formatShare = (share: number): string => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
