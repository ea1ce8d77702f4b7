import { useState } from 'react';
import css from './kernels.module.css';

export interface Cell {
  /** Name of the case or component. */
  readonly name: string;
  /** Error divided by its limit: above 1 it fails. Infinity: the error is not finite. */
  readonly limitShare: number;
  /** The figures as text. */
  readonly text: string;
}

interface HeatMapRow {
  readonly name: string;
  readonly cells: readonly Cell[];
}

const shadeSteps = [
  { upTo: 1e-6, name: 'up to 0.0001 % of the limit' },
  { upTo: 1e-3, name: '0.1 %' },
  { upTo: 1e-1, name: '10 %' },
  { upTo: 1, name: '100 %' },
] as const;

/**
 * Heat map of errors relative to their limits: dark is close to the limit, a cross is above it. The table has the
 * figures.
 */
export function ParityHeatMap({ label, rows }: { label: string; rows: readonly HeatMapRow[] }) {
  const [hoveredText, setHoveredText] = useState<string>();
  const failedCount = rows[0]?.cells.filter(({ limitShare }) => !(limitShare <= 1)).length ?? 0;
  const largestPassing = Math.max(
    0,
    ...(rows[0]?.cells.map(({ limitShare }) => limitShare) ?? []).filter((limitShare) => limitShare <= 1),
  );
  const count = rows[0]?.cells.length ?? 0;
  return (
    <figure className={css['map']}>
      <div
        role="img"
        aria-label={`${label}: ${failedCount} of ${count} above their limit; the largest of the others is at ${formatLimitShare(largestPassing)} of its limit. The table has the figures.`}
        className={css['mapBox']}
        // A scrollable region must be focusable by keyboard.
        tabIndex={0}
        onPointerLeave={() => setHoveredText(undefined)}
      >
        {rows.map(({ name, cells }) => (
          <div key={name} className={css['mapLine']}>
            <span className={css['mapName']}>{name}</span>
            <span className={css['mapCells']}>
              {cells.map((cell, index) => (
                <span
                  // oxlint-disable-next-line react/no-array-index-key -- cases may have the same name, and their order is fixed
                  key={index}
                  className={css[shadeClass(cell.limitShare)]}
                  onPointerEnter={() => setHoveredText(`${name}, ${cell.name}: ${cell.text}`)}
                >
                  {cell.limitShare <= 1 ? '' : '×'}
                </span>
              ))}
            </span>
          </div>
        ))}
      </div>
      <figcaption className={css['legend']}>
        {hoveredText ?? (
          <>
            {shadeSteps.map(({ name, upTo }) => (
              <span key={name}>
                <i className={css[shadeClass(upTo)]} /> {name}
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

function shadeClass(limitShare: number): string {
  const step = shadeSteps.findIndex(({ upTo }) => limitShare <= upTo);
  return step === -1 ? 'over' : `heat${step}`;
}

export const formatLimitShare = (limitShare: number): string =>
  Number.isFinite(limitShare) ? `${Number((limitShare * 100).toPrecision(2))} %` : 'not finite';

/** Formats an error of any magnitude. For infinities, which JSON lacks, the host writes null or the largest number. */
export function formatError(value: number | null | undefined): string {
  if (value === undefined) return '';
  if (value === null || Math.abs(value) > 1e300) return 'not finite';
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5)
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(1);
}
