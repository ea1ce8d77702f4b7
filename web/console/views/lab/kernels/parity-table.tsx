import { Badge, Table } from '../../../parts/index.tsx';
import type { Report } from './drafts.ts';
import { asPart, type Cell, figure, ParityMap } from './parity-map.tsx';

type Verdict = NonNullable<Report['parity']>[number];

/** The gate's parity cases as a heat map and as a table. */
export function ParityTable({ report }: { report: Report }) {
  const { parity = [], tolerance, seed } = report;
  if (parity.length === 0) return null;
  const least = tolerance?.matched_ratio ?? 1;
  const lines = [
    { name: 'Error', cells: parity.map((one) => cellOf(one, one.nmse)) },
    { name: 'Built-in', cells: parity.map((one) => cellOf(one, one.builtin?.nmse ?? 0)) },
    { name: 'Mismatches', cells: parity.map((one) => mismatches(one, least)) },
  ];
  return (
    <>
      <ParityMap label="Error by case" lines={lines} />
      <Table
        caption="Parity by case"
        rows={parity}
        keyOf={({ case: name }) => name}
        columns={[
          {
            key: 'ok',
            head: 'Verdict',
            cell: ({ ok }) => <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'passed' : 'failed'}</Badge>,
          },
          { key: 'case', head: 'Case', cell: ({ case: name }) => name },
          { key: 'nmse', head: 'NMSE', number: true, cell: ({ nmse }) => figure(nmse) },
          { key: 'limit', head: 'Limit', number: true, cell: (one) => figure(one.nmse_limit) },
          { key: 'builtin', head: 'Built-in', number: true, cell: ({ builtin }) => figure(builtin?.nmse) },
          { key: 'abs', head: 'Max abs', number: true, cell: (one) => figure(one.max_abs) },
          { key: 'rel', head: 'Max rel', number: true, cell: (one) => figure(one.max_rel) },
          { key: 'matched', head: 'Matched', number: true, cell: (one) => asPart(one.matched_ratio ?? 0) },
          { key: 'worst', head: 'Worst element', cell: ({ worst }) => worstText(worst) },
        ]}
      />
      <p>
        NMSE is the mean squared error divided by the mean square of the oracle output.
        {tolerance &&
          ` Mode ${tolerance.mode}${tolerance.scale === 1 ? '' : `, tolerance scale ${tolerance.scale}`}.`}
        {seed !== undefined && ` Seed ${seed}.`}
      </p>
    </>
  );
}

function cellOf({ case: of, nmse_limit: limit }: Verdict, nmse: number | null): Cell {
  const part = nmse === null || nmse > 1e300 ? Number.POSITIVE_INFINITY : nmse === 0 ? 0 : nmse / limit;
  return { of, part, said: `NMSE ${figure(nmse)}, ${asPart(part)} of the limit` };
}

/** @param least minimum share of elements that must match, 0 to 1 */
function mismatches({ case: of, matched_ratio: matched }: Verdict, least: number): Cell {
  const missed = 1 - (matched ?? 0);
  return {
    of,
    part: missed === 0 ? 0 : missed / (1 - least),
    said: `${asPart(missed)} of the elements mismatch, ${asPart(1 - least)} allowed`,
  };
}

const worstText = ({ output, index, expected, got }: Verdict['worst']): string =>
  `${output}[${index}]: expected ${exact(expected)}, got ${exact(got)}`;

/** Formats with the precision of an f32. */
const exact = (value: number | null): string =>
  value === null || Math.abs(value) > 1e300 ? figure(value) : String(Number(value.toPrecision(8)));
