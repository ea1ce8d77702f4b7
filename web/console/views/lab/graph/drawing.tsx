import '@xyflow/react/dist/base.css';
import {
  type Edge,
  type EdgeProps,
  Handle,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  useReactFlow,
} from '@xyflow/react';
import { createContext, use, useCallback, useEffect, useMemo, useRef } from 'react';
import { Button } from '../../../../ui/index.tsx';
import { type ColorMode, type BoxStyle, boxStyle } from './colors.ts';
import css from './graph.module.css';
import { type Item, type Layout, layoutGraph, pathOf, type Rect } from './layout.ts';
import { foldGraph, type KernelName, type LabGraph, shortId, type Times } from './graph-model.ts';

export interface DrawingProps {
  readonly graph: LabGraph;
  readonly times: Times;
  readonly kernels: readonly KernelName[];
  readonly colorMode: ColorMode;
  /** The open layer. */
  readonly layer: number | undefined;
  readonly openLayer: (layer: number | undefined) => void;
  /** Id of the selected node. */
  readonly selected: string;
  readonly select: (id: string) => void;
}

const DrawingContext = createContext<DrawingProps | undefined>(undefined);
const useDrawing = (): DrawingProps => {
  const context = use(DrawingContext);
  if (!context) throw new Error('outside of the drawing');
  return context;
};

type DiagramNode = Node<{ item: Item }>;

/** Read-only diagram of the graph. */
export default function Drawing(props: DrawingProps) {
  const { graph, times, layer, selected } = props;
  const layout = useMemo(() => layoutGraph(graph, foldGraph(graph, times, layer)), [graph, times, layer]);
  const nodes = useMemo(
    () =>
      layout.items.map(
        (item): DiagramNode => ({
          id: item.id,
          type: item.kind,
          position: { x: item.rect.x, y: item.rect.y },
          width: item.rect.width,
          height: item.rect.height,
          zIndex: zIndices[item.kind],
          data: { item },
          focusable: false,
        }),
      ),
    [layout],
  );
  const edges = useMemo(
    () =>
      layout.wires.map(
        ({ id, from, to, points }): Edge => ({
          id,
          source: from,
          target: to,
          type: 'wire',
          data: { path: pathOf(points) },
          focusable: false,
        }),
      ),
    [layout],
  );
  return (
    <DrawingContext value={props}>
      <div className={css['drawing']}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          minZoom={0.2}
          maxZoom={2}
          nodesDraggable={false}
          nodesConnectable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          zoomOnScroll={false}
          preventScrolling={false}
          zoomActivationKeyCode="Control"
          attributionPosition="bottom-left"
          aria-label="Graph of one decoded token, top to bottom"
        >
          <ViewportControls layout={layout} viewKey={`${layer}`} selected={selected} />
        </ReactFlow>
        <svg width="0" height="0" aria-hidden="true" className={css['marks']}>
          <marker
            id="lab-graph-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8Z" />
          </marker>
        </svg>
      </div>
    </DrawingContext>
  );
}

const zIndices = { layer: -3, unit: -2, node: 1, fold: 1, entry: 1 } as const;

/** Zoom and pan buttons, and the initial viewport. */
function ViewportControls({
  layout,
  viewKey,
  selected,
}: {
  layout: Layout;
  viewKey: string;
  selected: string;
}) {
  const flow = useReactFlow();
  const reveal = useReveal();
  const latest = useRef(layout);
  latest.current = layout;
  useEffect(() => {
    // Starts at the top, as wide as fits at a readable zoom.
    const room = boxSize()?.width ?? 0;
    const { width } = latest.current;
    const zoom = Math.min(1, Math.max(0.5, (room - 24) / width));
    void flow.setViewport({ x: Math.max(12, (room - width * zoom) / 2), y: 14, zoom });
  }, [flow, viewKey]);
  useEffect(() => {
    const item = latest.current.items.find(({ id }) => id === selected);
    if (item) reveal(item.rect);
  }, [reveal, selected, viewKey]);
  const pan = (by: number) => {
    const { x, y, zoom } = flow.getViewport();
    void flow.setViewport({ x, y: y + by, zoom });
  };
  return (
    <Panel position="bottom-right" className={css['views'] ?? ''}>
      <Button aria-label="Zoom in" onClick={() => void flow.zoomIn()}>
        +
      </Button>
      <Button aria-label="Zoom out" onClick={() => void flow.zoomOut()}>
        −
      </Button>
      <Button aria-label="Move up" onClick={() => pan(160)}>
        ↑
      </Button>
      <Button aria-label="Move down" onClick={() => pan(-160)}>
        ↓
      </Button>
      <Button onClick={() => void flow.fitView({ padding: 0.04 })}>Fit</Button>
    </Panel>
  );
}

const boxSize = () => document.querySelector(`.${css['drawing']}`)?.getBoundingClientRect();

/** Centers a rectangle that is not fully visible. */
function useReveal(): (rect: Rect) => void {
  const flow = useReactFlow();
  return useCallback(
    ({ x, y, width, height }) => {
      const { x: left, y: top, zoom } = flow.getViewport();
      const box = boxSize();
      if (!box) return;
      const isSeen =
        x * zoom + left >= 0 &&
        y * zoom + top >= 0 &&
        (x + width) * zoom + left <= box.width &&
        (y + height) * zoom + top <= box.height;
      if (!isSeen) void flow.setCenter(x + width / 2, y + height / 2, { zoom });
    },
    [flow],
  );
}

/** Invisible handles: React Flow requires them, although wires have their own paths. */
const Handles = () => (
  <>
    <Handle type="target" position={Position.Top} isConnectable={false} className={css['handle'] ?? ''} />
    <Handle type="source" position={Position.Bottom} isConnectable={false} className={css['handle'] ?? ''} />
  </>
);

const cssStyle = ({ background, borderColor }: BoxStyle) => ({
  ...(background === undefined ? {} : { background: background }),
  ...(borderColor === undefined ? {} : { borderColor: borderColor }),
});

function NodeBox({ data: { item } }: NodeProps<DiagramNode>) {
  const reveal = useReveal();
  const { times, kernels, colorMode, selected, select } = useDrawing();
  if (item.kind !== 'node') return null;
  const { node } = item;
  const unit = times.units.get(node.component);
  const style = boxStyle(colorMode, { ...unit, kernel: node.kernel }, { times, kernels });
  const isSingle = (unit?.nodes.length ?? 1) === 1;
  const isSelected = selected === node.id;
  return (
    <>
      <Handles />
      <button
        type="button"
        className={css['node']}
        style={cssStyle(style)}
        aria-pressed={isSelected}
        // Keyboard focus scrolls the node into view.
        onFocus={({ currentTarget }) => {
          if (currentTarget.matches(':focus-visible')) reveal(item.rect);
        }}
        onClick={() => select(isSelected ? '' : node.id)}
      >
        <strong>{shortId(node.id)}</strong>
        <span>{isSingle ? style.text : `${node.op} · ${node.dtype}`}</span>
      </button>
    </>
  );
}

function UnitBox({ data: { item } }: NodeProps<DiagramNode>) {
  const { times, kernels, colorMode } = useDrawing();
  const unit = item.kind === 'unit' ? times.units.get(item.component) : undefined;
  if (!unit) return null;
  const style = boxStyle(colorMode, unit, { times, kernels });
  return (
    <>
      <Handles />
      <div className={css['unit']} style={cssStyle(style)}>
        <span>
          <strong>{shortId(unit.id)}</strong> {style.text}
        </span>
      </div>
    </>
  );
}

function LayerBox({ data: { item } }: NodeProps<DiagramNode>) {
  const { openLayer } = useDrawing();
  if (item.kind !== 'layer') return null;
  return (
    <>
      <Handles />
      <div className={css['layer']}>
        <span>
          <strong>Layer {item.layer}</strong>
          <button type="button" className={css['fold']} onClick={() => openLayer(undefined)}>
            Collapse
          </button>
        </span>
      </div>
    </>
  );
}

function FoldBox({ data: { item } }: NodeProps<DiagramNode>) {
  const { times, kernels, openLayer, colorMode } = useDrawing();
  if (item.kind !== 'fold') return null;
  const { first, last, nodes, kernels: bound } = item.fold;
  const [onlyKernel = ''] = bound;
  const style: BoxStyle =
    colorMode === 'time' || bound.length > 0
      ? boxStyle(colorMode, { ...item.fold, kernel: onlyKernel }, { times, kernels })
      : { text: 'built-in kernels' };
  return (
    <>
      <Handles />
      <button
        type="button"
        className={css['folded']}
        // A sum over layers is not comparable with the share of a single node, so it has no tint.
        style={colorMode === 'time' ? {} : cssStyle(style)}
        onClick={() => openLayer(first)}
      >
        <strong>{first === last ? `Layer ${first}` : `Layers ${first} to ${last}`}</strong>
        <span>
          {nodes} nodes ·{' '}
          {bound.length > 1 && colorMode === 'kernel' ? `lab: ${bound.join(', ')}` : style.text}
        </span>
        <span>Expand {first === last ? '' : `layer ${first}`}</span>
      </button>
    </>
  );
}

function EntryBox({ data: { item } }: NodeProps<DiagramNode>) {
  if (item.kind !== 'entry') return null;
  return (
    <>
      <Handles />
      <div className={css['entry']} title={`Output of ${item.from.join(', ')}`}>
        input
      </div>
    </>
  );
}

function WirePath({ id, data }: EdgeProps<Edge<{ path: string }>>) {
  return <path id={id} d={data?.path ?? ''} className={css['wire']} markerEnd="url(#lab-graph-arrow)" />;
}

const nodeTypes = { node: NodeBox, unit: UnitBox, layer: LayerBox, fold: FoldBox, entry: EntryBox };
const edgeTypes = { wire: WirePath };
