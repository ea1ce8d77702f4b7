import { useState } from 'react';
import css from './kernels.module.css';

export interface Cell {
  /** What it is of: a case, a component. */
  readonly of: string;
  /** Part of what is tolerated: above 1 it fails. Infinity: no finite number. */
  readonly part: number;
  /** The figures, in words. */
  readonly said: string;
}

interface Line {
  readonly name: string;
  readonly cells: readonly Cell[];
}

const steps = [
  { upTo: 1e-6, name: 'up to a millionth of the limit' },
  { upTo: 1e-3, name: 'a thousandth' },
  { upTo: 1e-1, name: 'a tenth' },
  { upTo: 1, name: 'the limit' },
] as const;

/** Errors by how near they come to their limits: dark is near, a cross is above. The table beside it has the figures. */
export function ParityMap({ label, lines }: { label: string; lines: readonly Line[] }) {
  const [told, setTold] = useState<string>();
  const failed = lines[0]?.cells.filter(({ part }) => !(part <= 1)).length ?? 0;
  const nearest = Math.max(0, ...(lines[0]?.cells.map(({ part }) => part) ?? []).filter((part) => part <= 1));
  const count = lines[0]?.cells.length ?? 0;
  return (
    <figure className={css['map']}>
      <div
        role="img"
        aria-label={`${label}: ${failed} of ${count} above their limit; of the others the nearest comes to ${asPart(nearest)} of it. The table has the figures.`}
        className={css['mapBox']}
        onPointerLeave={() => setTold(undefined)}
      >
        {lines.map(({ name, cells }) => (
          <div key={name} className={css['mapLine']}>
            <span className={css['mapName']}>{name}</span>
            <span className={css['mapCells']}>
              {cells.map((cell) => (
                <span
                  key={cell.of}
                  className={css[shadeOf(cell.part)]}
                  onPointerEnter={() => setTold(`${name}, ${cell.of}: ${cell.said}`)}
                >
                  {cell.part <= 1 ? '' : '×'}
                </span>
              ))}
            </span>
          </div>
        ))}
      </div>
      <figcaption className={css['legend']}>
        {told ?? (
          <>
            {steps.map(({ name, upTo }) => (
              <span key={name}>
                <i className={css[shadeOf(upTo)]} /> {name}
              </span>
            ))}
            <span>
              <i className={css['over']}>×</i> above it
            </span>
          </>
        )}
      </figcaption>
    </figure>
  );
}

function shadeOf(part: number): string {
  const step = steps.findIndex(({ upTo }) => part <= upTo);
  return step === -1 ? 'over' : `heat${step}`;
}

export const asPart = (part: number): string =>
  Number.isFinite(part) ? `${Number((part * 100).toPrecision(2))} %` : 'no finite number';

/** Errors have many sizes. JSON has no infinities: the host writes null, or the greatest number there is. */
export function figure(value: number | null | undefined): string {
  if (value === undefined) return '';
  if (value === null || Math.abs(value) > 1e300) return 'not finite';
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5)
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(1);
}
