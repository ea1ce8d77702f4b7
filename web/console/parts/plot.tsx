import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { ChartProps } from './plot/types.ts';
import { Empty } from './index.tsx';
import { Legend } from './plot/legend.tsx';
import { nearest, type Pointed } from './plot/nearest.ts';
import { columnsOf, optionsOf, type Sorted, sorted } from './plot/options.ts';
import css from './plot/plot.module.css';
import { Tip } from './plot/tip.tsx';
import { Values } from './plot/values.tsx';

/** A uPlot chart with a legend and its values as a table. */
export default function Plot(props: ChartProps) {
  const { label, series, height = 260 } = props;
  const [pointed, setPointed] = useState<Pointed>();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data = useRef<Sorted>({ x: [], series: [], from: [] });
  const theme = useTheme();
  const isEmpty =
    props.x.length === 0 || series.every(({ values }) => values.every((value) => value === null));
  // Everything except the data: a change requires a new plot.
  const form = JSON.stringify([
    props.xKind,
    props.yKind,
    props.xNames,
    props.xLabel,
    props.yLabel,
    props.fromZero,
    height,
    theme,
    isEmpty,
    // Integer data needs integer axis steps.
    props.x.every(Number.isInteger),
    series.map(({ name, colour, draw, band }) => [name, colour, draw, band !== undefined]),
  ]);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const size = () => ({ width: Math.max(120, element.clientWidth), height });
    data.current = sorted(latest.current);
    const made = new uPlot(
      optionsOf(
        latest.current,
        () => data.current,
        size(),
        (at) => setPointed(nearest(at, data.current)),
      ),
      columnsOf(data.current),
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      if (made.width !== size().width) made.setSize(size());
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = undefined;
      setPointed(undefined);
    };
  }, [form, height]);

  useEffect(() => {
    data.current = sorted(latest.current);
    plot.current?.setData(columnsOf(data.current));
  }, [props.x, series]);

  return (
    <figure className={css['figure']}>
      {series.length > 1 && <Legend series={series} />}
      <div className={css['stage']}>
        {isEmpty ? (
          <Empty title="No data to plot." />
        ) : (
          <div ref={box} role="img" aria-label={label} style={{ height }} />
        )}
        {pointed && <Tip props={props} pointed={pointed} />}
      </div>
      <Values {...props} />
    </figure>
  );
}

/** The current theme of the page, light or dark. */
function useTheme(): string {
  const read = () => document.documentElement.dataset['theme'] ?? '';
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const watcher = new MutationObserver(() => setTheme(read()));
    watcher.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => watcher.disconnect();
  }, []);
  return theme;
}
