import type { Series } from './types.ts';
import { colourOf, cornersOf, dashOf, shapeOf } from './marks.ts';
import css from './plot.module.css';

const Swatch = ({ all, one, index }: { all: readonly Series[]; one: Series; index: number }) => {
  const colour = `var(${colourOf(one, index)})`;
  const { draw = 'line' } = one;
  const shape = shapeOf(all, index);
  return (
    <svg width="22" height="12" viewBox="-11 -6 22 12" aria-hidden="true">
      {draw === 'line' && (
        <line
          x1="-11"
          x2="11"
          stroke={colour}
          strokeWidth="2.5"
          strokeDasharray={dashOf(all, index).join(' ')}
        />
      )}
      {draw === 'bars' && <rect x="-6" y="-6" width="12" height="12" rx="2" fill={colour} />}
      {draw === 'points' && shape === 'circle' && <circle r="4.5" fill={colour} />}
      {draw === 'points' && shape !== 'circle' && (
        <polygon
          points={cornersOf(shape, 4.5)
            .map((corner) => corner.join(','))
            .join(' ')}
          fill={colour}
        />
      )}
    </svg>
  );
};

export const Legend = ({ series }: { series: readonly Series[] }) => (
  <ul className={css['legend']}>
    {series.map((one, index) => (
      <li key={one.name}>
        <Swatch all={series} one={one} index={index} />
        {one.name}
      </li>
    ))}
  </ul>
);
