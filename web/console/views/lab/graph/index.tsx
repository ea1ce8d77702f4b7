import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useMemo } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { formatMs } from '../../../../ui/format.ts';
import { Button, Empty, FaultNote, Loading, Panel } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { useBenchRuns } from '../bench-runs.tsx';
import { stageText } from '../bench/runs.ts';
import type { ColorMode } from './colors.ts';
import css from './graph.module.css';
import { Legend } from './legend.tsx';
import { kernelsOf, type LabGraph, layerOf, layersOf, timesOf } from './graph-model.ts';
import { NodeList } from './node-list.tsx';
import { NodePanel } from './node-panel.tsx';

const Drawing = lazy(() => import('./drawing.tsx'));

/** The live graph of the resident model. */
export default function Graph() {
  const graph = useQuery({ queryKey: ['lab', 'graph'], queryFn: () => unwrap(api.GET('/lab/v1/graph')) });
  if (graph.isPending) return <Loading what="the graph" />;
  if (graph.isError) {
    return (
      <div className={css['body']}>
        <FaultNote error={graph.error} retry={() => void graph.refetch()} />
      </div>
    );
  }
  return <GraphView graph={graph.data} />;
}

function GraphView({ graph }: { graph: LabGraph }) {
  const parts = useQuery({ queryKey: ['lab', 'parts'], queryFn: () => unwrap(api.GET('/lab/v1/parts')) });
  const { measure, stop, running, runs } = useBenchRuns();
  const [viewMode, setViewMode] = useUrlState('form', 'drawing');
  const [colorParam, setColorParam] = useUrlState('colour', 'time');
  const [layerParam, setLayerParam] = useUrlState('layer', '0');
  const [selected, setSelected] = useUrlState('node');
  const times = useMemo(() => timesOf(graph), [graph]);
  const kernels = useMemo(() => kernelsOf(graph), [graph]);
  const layers = useMemo(() => layersOf(graph), [graph]);
  const colorMode: ColorMode = colorParam === 'kernel' ? 'kernel' : 'time';
  const layer = layers.find((one) => String(one) === layerParam);
  const node = graph.nodes.find(({ id }) => id === selected);
  const last = runs.at(-1);
  const openLayer = (next: number | undefined) => setLayerParam(next === undefined ? 'none' : String(next));
  const select = (id: string) => {
    setSelected(id);
    const nodeLayer = layerOf(id);
    if (nodeLayer !== undefined && nodeLayer !== layer) openLayer(nodeLayer);
  };
  if (graph.nodes.length === 0)
    return <Empty title="The model has no graph.">Load another one on the page Models.</Empty>;
  return (
    <div className={css['body']}>
      <div className={css['tools']}>
        <label>
          View
          <select value={viewMode} onChange={({ target }) => setViewMode(target.value)}>
            <option value="drawing">Drawing</option>
            <option value="table">Table</option>
          </select>
        </label>
        <label>
          Color by
          <select value={colorMode} onChange={({ target }) => setColorParam(target.value)}>
            <option value="time">GPU time</option>
            <option value="kernel">Kernel</option>
          </select>
        </label>
        {layers.length > 0 && (
          <label>
            Layer
            <select value={layer ?? 'none'} onChange={({ target }) => setLayerParam(target.value)}>
              <option value="none">None</option>
              {layers.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
        )}
        {running ? (
          <Button onClick={stop}>Stop measuring</Button>
        ) : (
          <Button onClick={measure}>{times.isMeasured ? 'Measure again' : 'Measure GPU times'}</Button>
        )}
        <span role="status">
          {running
            ? `The host ${stageText(running)} ...`
            : times.isMeasured
              ? `${formatMs(times.totalMs)} GPU time per decoded token`
              : 'GPU times have not been measured since the kernels changed.'}
        </span>
      </div>
      {last?.error !== undefined && <FaultNote error={last.error} retry={measure} />}
      <Legend colorMode={colorMode} times={times} kernels={kernels} />
      <div className={node ? css['split'] : undefined}>
        {viewMode === 'table' ? (
          <Panel>
            <NodeList {...{ graph, times, layer, openLayer, selected, select }} />
          </Panel>
        ) : (
          <Suspense fallback={<Loading what="the drawing" />}>
            <Drawing {...{ graph, times, kernels, colorMode, layer, openLayer, selected, select }} />
          </Suspense>
        )}
        {node && <NodePanel {...{ graph, node, times, select }} parts={parts.data} />}
      </div>
      {parts.isError && <FaultNote error={parts.error} retry={() => void parts.refetch()} />}
    </div>
  );
}
