/**
 * Layout of the graph, from the inside out: the nodes of a dispatch, the dispatches of the expanded layer, then the
 * whole graph. The result of one level is a single block on the next level, so that each box encloses only its
 * contents.
 */
import dagre from '@dagrejs/dagre';
import { type Fold, type FoldedGraph, type GraphNode, type LabGraph, layerOf } from './graph-model.ts';

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type Item =
  | { readonly kind: 'node'; readonly id: string; readonly node: GraphNode; readonly rect: Rect }
  | { readonly kind: 'fold'; readonly id: string; readonly fold: Fold; readonly rect: Rect }
  /** Marks where outputs of other layers enter the expanded layer. */
  | { readonly kind: 'entry'; readonly id: string; readonly from: readonly string[]; readonly rect: Rect }
  /** Box around the nodes of one dispatch. */
  | { readonly kind: 'unit'; readonly id: string; readonly component: string; readonly rect: Rect }
  | { readonly kind: 'layer'; readonly id: string; readonly layer: number; readonly rect: Rect };

export interface Wire {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly points: readonly Point[];
}
interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly items: readonly Item[];
  readonly wires: readonly Wire[];
  readonly width: number;
  readonly height: number;
}

const nodeSize = { width: 176, height: 46 };
const foldSize = { width: 260, height: 64 };
const entrySize = { width: 90, height: 24 };
const padding = 12;
const boxHeaderHeight = 30;

/** A laid-out block with its origin at 0, 0. */
interface Block extends Layout {
  readonly id: string;
}
type Edges = readonly (readonly [from: string, to: string])[];

export function layoutGraph(graph: LabGraph, { outside, open, folds }: FoldedGraph): Layout {
  const edges: Edges = graph.edges.map(({ from, to }) => [from, to]);
  const parts = [...dispatchBlocks(outside, edges), ...folds.map(foldBlock)];
  if (open) parts.push(layerBlock(open, edges));
  const ownerOf = new Map<string, string>();
  for (const { id, items } of parts) {
    for (const item of items) if (item.kind === 'node') ownerOf.set(item.id, id);
  }
  for (const { id, first, last } of folds) {
    for (const { id: node } of graph.nodes) {
      const layer = layerOf(node);
      if (layer !== undefined && layer >= first && layer <= last) ownerOf.set(node, id);
    }
  }
  return arrange(parts, blockEdges(edges, ownerOf), 44);
}

/** Edges between blocks, without duplicates. */
function blockEdges(edges: Edges, ownerOf: ReadonlyMap<string, string>): Edges {
  const edgesByKey = new Map<string, readonly [string, string]>();
  for (const [from, to] of edges) {
    const [source, target] = [ownerOf.get(from), ownerOf.get(to)];
    if (source === undefined || target === undefined || source === target) continue;
    edgesByKey.set(`${source} ${target}`, [source, target]);
  }
  return [...edgesByKey.values()];
}

const singleBlock = (item: Item): Block => ({
  id: item.id,
  items: [item],
  wires: [],
  width: item.rect.width,
  height: item.rect.height,
});

const nodeBlock = (node: GraphNode): Block =>
  singleBlock({ kind: 'node', id: node.id, node, rect: { x: 0, y: 0, ...nodeSize } });

const foldBlock = (fold: Fold): Block =>
  singleBlock({ kind: 'fold', id: fold.id, fold, rect: { x: 0, y: 0, ...foldSize } });

/** Groups the nodes of each dispatch in a box. */
function dispatchBlocks(nodes: readonly GraphNode[], edges: Edges): Block[] {
  return [...Map.groupBy(nodes, ({ component }) => component)].map(([component, all]) => {
    const [only] = all;
    if (all.length === 1 && only) return nodeBlock(only);
    const memberIds = new Set(all.map(({ id }) => id));
    const inner = arrange(
      all.map(nodeBlock),
      edges.filter(([from, to]) => memberIds.has(from) && memberIds.has(to)),
      26,
    );
    return boxBlock(inner, `unit ${component}`, (rect) => ({
      kind: 'unit',
      id: `unit ${component}`,
      component,
      rect,
    }));
  });
}

function layerBlock({ layer, nodes }: NonNullable<FoldedGraph['open']>, edges: Edges): Block {
  const blocks = dispatchBlocks(nodes, edges);
  const ownerOf = new Map<string, string>();
  for (const { id, items } of blocks) {
    for (const item of items) if (item.kind === 'node') ownerOf.set(item.id, id);
  }
  const entering = edges.filter(([from, to]) => !ownerOf.has(from) && ownerOf.has(to));
  const sources = [...new Set(entering.map(([from]) => from))];
  const entry = `entry ${layer}`;
  if (sources.length > 0) {
    blocks.unshift(
      singleBlock({ kind: 'entry', id: entry, from: sources, rect: { x: 0, y: 0, ...entrySize } }),
    );
    for (const source of sources) ownerOf.set(source, entry);
  }
  const inner = arrange(blocks, blockEdges(edges, ownerOf), 30);
  return boxBlock(inner, `layer ${layer}`, (rect) => ({ kind: 'layer', id: `layer ${layer}`, layer, rect }));
}

function boxBlock(inner: Layout, id: string, box: (rect: Rect) => Item): Block {
  const moved = translate(inner, padding, boxHeaderHeight);
  const size = { width: inner.width + 2 * padding, height: inner.height + boxHeaderHeight + padding };
  return { id, items: [box({ x: 0, y: 0, ...size }), ...moved.items], wires: moved.wires, ...size };
}

function arrange(blocks: readonly Block[], edges: Edges, rankGap: number): Layout {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'TB', nodesep: 18, edgesep: 14, ranksep: rankGap });
  for (const { id, width, height } of blocks) graph.setNode(id, { width, height });
  for (const [from, to] of edges) graph.setEdge(from, to, {});
  dagre.layout(graph);
  const placed = blocks.map((block) => {
    const { x = 0, y = 0 } = graph.node(block.id) as Partial<Point>;
    return translate(block, x - block.width / 2, y - block.height / 2);
  });
  const wires = edges.map(([from, to]): Wire => {
    const { points = [] } = graph.edge(from, to) as { points?: Point[] };
    return { id: `${from} ${to}`, from, to, points };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  // dagre's bounds cover blocks only; wires may extend beyond them.
  const across = wires.flatMap(({ points }) => points.map(({ x }) => x));
  const [left, right] = [Math.min(0, ...across), Math.max(width, ...across)];
  const all = {
    items: placed.flatMap(({ items }) => items),
    wires: [...wires, ...placed.flatMap((one) => one.wires)],
    width: right - left,
    height,
  };
  return left === 0 ? all : translate(all, -left, 0);
}

function translate({ items, wires, width, height }: Layout, x: number, y: number): Layout {
  return {
    width,
    height,
    items: items.map((item) => ({ ...item, rect: { ...item.rect, x: item.rect.x + x, y: item.rect.y + y } })),
    wires: wires.map((wire) => ({
      ...wire,
      points: wire.points.map((point) => ({ x: point.x + x, y: point.y + y })),
    })),
  };
}

/** A smooth SVG path through the points. */
export function pathOf(points: readonly Point[]): string {
  const [first, ...others] = points;
  const last = others.at(-1);
  if (!first || !last) return '';
  const steps = others.slice(0, -1).map((point, index) => {
    const next = others[index + 1] ?? last;
    const end = index === others.length - 2 ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q ${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  return [`M ${first.x} ${first.y}`, ...(steps.length > 0 ? steps : [`L ${last.x} ${last.y}`])].join(' ');
}
