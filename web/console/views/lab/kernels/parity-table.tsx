import { Badge, Table } from '../../../parts/index.tsx';
import type { Report } from './drafts.ts';
import { asPart, type Cell, figure, ParityMap } from './parity-map.tsx';

type Verdict = NonNullable<Report['parity']>[number];

/** The gate's cases against the oracle: as a strip of errors, and in figures. */
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
        NMSE is the mean squared error by the mean square of what the oracle expects.
        {tolerance &&
          ` Mode ${tolerance.mode}${tolerance.scale === 1 ? '' : `, tolerances times ${tolerance.scale}`}.`}
        {seed !== undefined && ` Seed ${seed}.`}
      </p>
    </>
  );
}

function cellOf({ case: of, nmse_limit: limit }: Verdict, nmse: number | null): Cell {
  const part = nmse === null || nmse > 1e300 ? Number.POSITIVE_INFINITY : nmse === 0 ? 0 : nmse / limit;
  return { of, part, said: `NMSE ${figure(nmse)}, ${asPart(part)} of the limit` };
}

/** @param least part of the elements that must match */
function mismatches({ case: of, matched_ratio: matched }: Verdict, least: number): Cell {
  const missed = 1 - (matched ?? 0);
  return {
    of,
    part: missed === 0 ? 0 : missed / (1 - least),
    said: `${asPart(missed)} of the elements are off, ${asPart(1 - least)} may be`,
  };
}

const worstText = ({ output, index, expected, got }: Verdict['worst']): string =>
  `${output}[${index}]: ${exact(expected)}, got ${exact(got)}`;

/** To as many digits as an f32 has. */
const exact = (value: number | null): string =>
  value === null || Math.abs(value) > 1e300 ? figure(value) : String(Number(value.toPrecision(8)));
