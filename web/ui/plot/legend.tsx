import type { Series } from './types.ts';
import { colorVariable, cornersOf, dashOf, shapeOf } from './series-style.ts';
import css from './plot.module.css';

const Swatch = ({ series, item, index }: { series: readonly Series[]; item: Series; index: number }) => {
  const color = `var(${colorVariable(item, index)})`;
  const { draw = 'line' } = item;
  const shape = shapeOf(series, index);
  return (
    <svg width="22" height="12" viewBox="-11 -6 22 12" aria-hidden="true">
      {draw === 'line' && (
        <line
          x1="-11"
          x2="11"
          stroke={color}
          strokeWidth="2.5"
          strokeDasharray={dashOf(series, index).join(' ')}
        />
      )}
      {draw === 'bars' && <rect x="-6" y="-6" width="12" height="12" rx="2" fill={color} />}
      {draw === 'points' && shape === 'circle' && <circle r="4.5" fill={color} />}
      {draw === 'points' && shape !== 'circle' && (
        <polygon
          points={cornersOf(shape, 4.5)
            .map((corner) => corner.join(','))
            .join(' ')}
          fill={color}
        />
      )}
    </svg>
  );
};

export const Legend = ({ series }: { series: readonly Series[] }) => (
  <ul className={css['legend']}>
    {series.map((item, index) => (
      <li key={item.name}>
        <Swatch series={series} item={item} index={index} />
        {item.name}
      </li>
    ))}
  </ul>
);
