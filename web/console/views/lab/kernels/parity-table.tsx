import { Table } from '../../../../ui/index.tsx';
import type { Report } from './drafts.ts';
import { formatLimitShare, type Cell, formatError, ParityHeatMap } from './parity-heat-map.tsx';
import { StateBadge } from '../../../../ui/state-badge.tsx';

type Verdict = NonNullable<Report['parity']>[number];

/** The gate's parity cases as a heat map and as a table, those that failed first. */
export function ParityTable({ report, isFolded }: { report: Report; isFolded: boolean }) {
  const { parity = [], tolerance, seed } = report;
  if (parity.length === 0) return null;
  const failed = parity.filter(({ ok }) => !ok).length;
  const minMatched = tolerance?.matched_ratio ?? 1;
  const rows = [
    { name: 'Error', cells: parity.map((one) => errorCell(one, one.nmse)) },
    { name: 'Built-in', cells: parity.map((one) => errorCell(one, one.builtin?.nmse ?? 0)) },
    { name: 'Mismatches', cells: parity.map((one) => mismatchCell(one, minMatched)) },
  ];
  return (
    <>
      <ParityHeatMap label="Error by case" rows={rows} />
      <details open={!isFolded || failed > 0}>
        <summary>
          {failed === 0 ? `All ${parity.length} cases passed` : `${failed} of ${parity.length} cases failed`}
        </summary>
        <Table
          caption="Parity by case"
          rows={parity.toSorted((a, b) => Number(a.ok) - Number(b.ok))}
          keyOf={({ case: name }, index) => `${index} ${name}`}
          columns={[
            {
              key: 'ok',
              head: 'Verdict',
              cell: ({ ok }) => <StateBadge state={ok ? 'passed' : 'failed'} isRecorded />,
            },
            { key: 'case', head: 'Case', cell: ({ case: name }) => name },
            { key: 'nmse', head: 'NMSE', number: true, cell: ({ nmse }) => formatError(nmse) },
            { key: 'limit', head: 'Limit', number: true, cell: (one) => formatError(one.nmse_limit) },
            {
              key: 'builtin',
              head: 'Built-in',
              number: true,
              cell: ({ builtin }) => formatError(builtin?.nmse),
            },
            { key: 'abs', head: 'Max abs', number: true, cell: (one) => formatError(one.max_abs) },
            { key: 'rel', head: 'Max rel', number: true, cell: (one) => formatError(one.max_rel) },
            {
              key: 'matched',
              head: 'Matched',
              number: true,
              cell: (one) => formatLimitShare(one.matched_ratio ?? 0),
            },
            { key: 'worst', head: 'Worst element', cell: ({ worst }) => worstText(worst) },
          ]}
        />
      </details>
      <p>
        NMSE is the mean squared error divided by the mean square of the oracle output.
        {tolerance &&
          ` Mode ${tolerance.mode}${tolerance.scale === 1 ? '' : `, tolerance scale ${tolerance.scale}`}.`}
        {seed !== undefined && ` Seed ${seed}.`}
      </p>
    </>
  );
}

function errorCell({ case: name, nmse_limit: limit }: Verdict, nmse: number | null): Cell {
  const limitShare = nmse === null || nmse > 1e300 ? Number.POSITIVE_INFINITY : nmse === 0 ? 0 : nmse / limit;
  return {
    name,
    limitShare,
    text: `NMSE ${formatError(nmse)}, ${formatLimitShare(limitShare)} of the limit`,
  };
}

/** @param least minimum share of elements that must match, 0 to 1 */
function mismatchCell({ case: name, matched_ratio: matched }: Verdict, minMatched: number): Cell {
  const mismatchShare = 1 - (matched ?? 0);
  return {
    name,
    limitShare: mismatchShare === 0 ? 0 : mismatchShare / (1 - minMatched),
    text: `${formatLimitShare(mismatchShare)} of the elements mismatch, ${formatLimitShare(1 - minMatched)} allowed`,
  };
}

const worstText = ({ output, index, expected, got }: Verdict['worst']): string =>
  `${output}[${index}]: expected ${formatExact(expected)}, got ${formatExact(got)}`;

/** Formats with the precision of an f32. */
const formatExact = (value: number | null): string =>
  value === null || Math.abs(value) > 1e300 ? formatError(value) : String(Number(value.toPrecision(8)));
