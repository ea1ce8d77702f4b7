import type { ChartProps } from './types.ts';
import { formatPoint, formatX } from './series-style.ts';
import type { HoveredPoint } from './nearest-point.ts';
import css from './plot.module.css';

/** Tooltip of the point under the cursor. The table below shows the same values without a pointer. */
export function Tooltip({ props, hovered }: { props: ChartProps; hovered: HoveredPoint }) {
  const { series, describe, x, xLabel } = props;
  const { index, left, top, middle } = hovered;
  const shown = series
    .map((one, at) => ({ one, at }))
    .filter(
      ({ one, at }) =>
        (hovered.series === undefined ? one.draw !== 'points' : hovered.series === at) &&
        (one.values[index] ?? null) !== null,
    );
  if (shown.length === 0) return null;
  return (
    <div
      className={css['tip']}
      aria-hidden="true"
      // On the side with more space.
      style={left > middle ? { right: `calc(100% - ${left - 12}px)`, top } : { left: left + 12, top }}
    >
      {describe === undefined && (
        <strong>
          {xLabel}: {formatX(props, x[index] ?? 0)}
        </strong>
      )}
      {shown.map(({ one, at }) => (
        <div key={one.name}>{describe?.(at, index) ?? `${one.name}: ${formatPoint(one, index)}`}</div>
      ))}
    </div>
  );
}
