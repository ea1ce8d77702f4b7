import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { ChartProps } from './plot/types.ts';
import { Empty } from './index.tsx';
import { Legend } from './plot/legend.tsx';
import { nearestPoint, type HoveredPoint } from './plot/nearest-point.ts';
import { alignedData, plotOptions, type SortedData, sortData } from './plot/plot-options.ts';
import css from './plot/plot.module.css';
import { Tooltip } from './plot/tooltip.tsx';
import { ValuesTable } from './plot/values-table.tsx';

/** A uPlot chart with a legend and its values as a table. */
export default function Plot(props: ChartProps) {
  const { label, series, height = 260 } = props;
  const [hovered, setPointed] = useState<HoveredPoint>();
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data = useRef<SortedData>({ x: [], series: [], from: [] });
  const theme = useTheme();
  const isEmpty =
    props.x.length === 0 || series.every(({ values }) => values.every((value) => value === null));
  // Everything except the data: a change requires a new plot.
  const plotKey = JSON.stringify([
    props.xKind,
    props.yKind,
    props.xNames,
    props.xLabel,
    props.yLabel,
    props.startsAtZero,
    height,
    theme,
    isEmpty,
    // Integer data needs integer axis steps.
    props.x.every(Number.isInteger),
    series.map(({ name, color: colour, draw, band }) => [name, colour, draw, band !== undefined]),
  ]);
  const latestProps = useRef(props);
  latestProps.current = props;

  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    const plotSize = () => ({ width: Math.max(120, element.clientWidth), height });
    data.current = sortData(latestProps.current);
    const uplot = new uPlot(
      plotOptions(
        latestProps.current,
        () => data.current,
        plotSize(),
        (at) => setPointed(nearestPoint(at, data.current)),
      ),
      alignedData(data.current),
      element,
    );
    plot.current = uplot;
    const observer = new ResizeObserver(() => {
      if (uplot.width !== plotSize().width) uplot.setSize(plotSize());
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      uplot.destroy();
      plot.current = undefined;
      setPointed(undefined);
    };
  }, [plotKey, height]);

  useEffect(() => {
    data.current = sortData(latestProps.current);
    plot.current?.setData(alignedData(data.current));
  }, [props.x, series]);

  return (
    <figure className={css['figure']}>
      {series.length > 1 && <Legend series={series} />}
      <div className={css['stage']}>
        {isEmpty ? (
          <Empty title="No data to plot.">Values are drawn here when there are some.</Empty>
        ) : (
          <div ref={container} role="img" aria-label={label} style={{ height }} />
        )}
        {hovered && <Tooltip props={props} hovered={hovered} />}
      </div>
      <ValuesTable {...props} />
    </figure>
  );
}

/** The current theme of the page, light or dark. */
function useTheme(): string {
  const readTheme = () => document.documentElement.dataset['theme'] ?? '';
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const observer = new MutationObserver(() => setTheme(readTheme()));
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => observer.disconnect();
  }, []);
  return theme;
}
