import { CopyValue } from '../../../../ui/copy.tsx';
import { formatNumber } from '../../../../ui/format.ts';
import { Facts, Table } from '../../../../ui/index.tsx';
import type { BenchResult } from './runs.ts';
import css from './bench.module.css';
import { IntervalsChart } from './intervals-chart.tsx';
import { VerdictBadge } from './verdict-badge.tsx';
import { creditedVerdict, explainVerdict, formatEstimate, headlineVerdict } from './verdict-text.ts';

/** Result of a bench: verdict, chart and table. */
export function Outcome({ result }: { result: BenchResult }) {
  const { baseline, bound, prefill, decode, warnings, method, fingerprint } = result;
  const verdict = headlineVerdict(result);
  const rows = [
    {
      name: `Prompt of ${prefill.prompt_tokens}`,
      ...prefill,
      before: baseline.prefill_tps,
      after: bound.prefill_tps,
    },
    ...decode.map((one) => ({
      name: `Decode at ${one.context}`,
      ...one,
      before: one.baseline_tps,
      after: one.bound_tps,
    })),
  ];
  return (
    <>
      <p className={css['verdict']} role="status">
        <VerdictBadge verdict={verdict} /> {explainVerdict(result)}
      </p>
      {warnings.length > 0 && (
        <ul className={css['warnings']}>
          {warnings.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      )}
      <IntervalsChart result={result} />
      <Table
        caption="Tokens per second and ratios"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { key: 'name', head: 'Measurement', cell: ({ name }) => name },
          { key: 'before', head: 'Built-in tokens/s', number: true, cell: (one) => formatNumber(one.before) },
          { key: 'after', head: 'Bound tokens/s', number: true, cell: (one) => formatNumber(one.after) },
          { key: 'ratio', head: 'Change (95 % interval)', number: true, cell: formatEstimate },
          { key: 'control', head: 'Control', number: true, cell: ({ control }) => formatEstimate(control) },
          {
            key: 'verdict',
            head: 'Verdict',
            cell: (one) => <VerdictBadge verdict={creditedVerdict(one)} />,
          },
        ]}
      />
      <details>
        <summary>Method and environment</summary>
        <p>{method}</p>
        <Facts
          facts={[
            ['Adapter', `${fingerprint.adapter}, ${fingerprint.backend}, ${fingerprint.driver}`],
            ['Dawn', [fingerprint.dawn, ...fingerprint.toggles].join(', ')],
            ['Model', <CopyValue key="model" value={fingerprint.model} label="the model's digest" />],
            [
              'Kernels',
              Object.entries(fingerprint.kernels).map(([name, digest]) => (
                <div key={name}>
                  {name} <CopyValue value={digest} label={`the digest of ${name}`} />
                </div>
              )),
            ],
            ['Seed', String(fingerprint.seed)],
          ]}
        />
      </details>
    </>
  );
}
