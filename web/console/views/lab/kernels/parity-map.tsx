import { useState } from 'react';
import css from './kernels.module.css';

export interface Cell {
  /** Name of the case or component. */
  readonly of: string;
  /** Error divided by its limit: above 1 it fails. Infinity: the error is not finite. */
  readonly part: number;
  /** The figures as text. */
  readonly said: string;
}

interface Line {
  readonly name: string;
  readonly cells: readonly Cell[];
}

const steps = [
  { upTo: 1e-6, name: 'up to 0.0001 % of the limit' },
  { upTo: 1e-3, name: '0.1 %' },
  { upTo: 1e-1, name: '10 %' },
  { upTo: 1, name: '100 %' },
] as const;

/**
 * Heat map of errors relative to their limits: dark is close to the limit, a cross is above it. The table has the
 * figures.
 */
export function ParityMap({ label, lines }: { label: string; lines: readonly Line[] }) {
  const [told, setTold] = useState<string>();
  const failed = lines[0]?.cells.filter(({ part }) => !(part <= 1)).length ?? 0;
  const nearest = Math.max(0, ...(lines[0]?.cells.map(({ part }) => part) ?? []).filter((part) => part <= 1));
  const count = lines[0]?.cells.length ?? 0;
  return (
    <figure className={css['map']}>
      <div
        role="img"
        aria-label={`${label}: ${failed} of ${count} above their limit; the largest of the others is at ${asPart(nearest)} of its limit. The table has the figures.`}
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
              <i className={css['over']}>×</i> above the limit
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
  Number.isFinite(part) ? `${Number((part * 100).toPrecision(2))} %` : 'not finite';

/** Formats an error of any magnitude. For infinities, which JSON lacks, the host writes null or the largest number. */
export function figure(value: number | null | undefined): string {
  if (value === undefined) return '';
  if (value === null || Math.abs(value) > 1e300) return 'not finite';
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5)
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(1);
}
