import { type ReactNode, useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { Chart } from '../../../../ui/chart.tsx';
import { formatMs, formatTime } from '../../../../ui/format.ts';
import { Button, Empty, FaultNote, Field, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { kernelPath, shortDigest } from '../kernels/paths.ts';
import {
  componentOf,
  filterBenches,
  filterChoices,
  historyChart,
  type Measure,
  measureTitles,
  verdictOfBench,
} from './bench-list.ts';
import css from './bench.module.css';
import { benchPath, type BenchSummary, comparePath, useBenches } from './queries.ts';
import { VerdictBadge } from './verdict-badge.tsx';
import { formatEstimate, formatFigure } from './verdict-text.ts';

/**
 * The finished benches of the host over time, as a chart and as a table from which two can be compared. Filters are in the URL.
 * @param props.kernel only the benches of this kernel
 */
export function BenchHistory({ kernel: fixedKernel }: { kernel?: string }) {
  const benches = useBenches();
  const [, navigate] = useLocation();
  const [chosenKernel, setKernel] = useUrlState('kernel');
  const [model, setModel] = useUrlState('model');
  const [component, setComponent] = useUrlState('component');
  const [measureText, setMeasure] = useUrlState('measure', 'decode');
  const [picked, setPicked] = useState<readonly string[]>([]);
  const kernel = fixedKernel ?? chosenKernel;
  const measure: Measure = Object.hasOwn(measureTitles, measureText) ? (measureText as Measure) : 'decode';
  const all = useMemo(
    () => filterBenches(benches.data ?? [], { kernel: fixedKernel ?? '', model: '', component: '' }),
    [benches.data, fixedKernel],
  );
  const choices = useMemo(() => filterChoices(all), [all]);
  const rows = useMemo(
    () => filterBenches(all, { kernel, model, component }),
    [all, kernel, model, component],
  );
  const chart = useMemo(() => historyChart(rows, { measure, component }), [rows, measure, component]);
  const [before, after] = picked
    .flatMap((id) => rows.find((one) => one.id === id) ?? [])
    .toSorted((a, b) => a.at.localeCompare(b.at));
  const title = fixedKernel === undefined ? 'Bench history' : `Benches of ${fixedKernel}`;
  if (benches.error)
    return (
      <Panel title={title}>
        <FaultNote error={benches.error} retry={() => void benches.refetch()} />
      </Panel>
    );
  if (!benches.data)
    return (
      <Panel title={title}>
        <Loading what="the benches" />
      </Panel>
    );
  if (all.length === 0)
    return (
      <Panel title={title}>
        <Empty title="No bench yet.">
          {fixedKernel === undefined ? (
            'Bind a kernel and run the bench above: every finished bench is listed here, also after a restart.'
          ) : (
            <>
              Bind {fixedKernel}, then run the <Link href="/console/lab/bench">bench</Link>.
            </>
          )}
        </Empty>
      </Panel>
    );
  return (
    <Panel
      title={title}
      tools={
        <Button
          disabled={!before || !after}
          onClick={() => before && after && navigate(comparePath(before.id, after.id))}
        >
          {before && after ? 'Compare the two' : `Compare: select two below (${picked.length} of 2)`}
        </Button>
      }
    >
      <div className={css['fields']}>
        {fixedKernel === undefined && (
          <Choice
            label="Kernel"
            all="all kernels"
            values={choices.kernels}
            value={kernel}
            onChange={setKernel}
          />
        )}
        <Choice label="Model" all="all models" values={choices.models} value={model} onChange={setModel} />
        <Choice
          label="Component"
          all="the whole model"
          values={choices.components}
          value={component}
          onChange={setComponent}
        />
        {component === '' && (
          <Field label="Measure">
            {(control) => (
              <select {...control} value={measure} onChange={({ target }) => setMeasure(target.value)}>
                {Object.entries(measureTitles).map(([name, text]) => (
                  <option key={name} value={name}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
      </div>
      {rows.length === 0 ? (
        <Empty title="No bench matches.">Choose another kernel, model or component.</Empty>
      ) : (
        <>
          <Chart
            label={
              component === ''
                ? `${measureTitles[measure]} in ${rows.length} benches over time, by kernel digest and version of lathe.${chart.isRatio ? ' Above 1, the bound kernels are faster than the built-in ones.' : ''}`
                : `GPU time of ${component} in a decoded token in ${rows.length} benches over time, by kernel digest and version of lathe.`
            }
            x={chart.x}
            xKind="time"
            series={chart.series}
            describe={chart.describe}
            xLabel="Ended"
            yLabel={chart.yLabel}
            height={260}
          />
          <BenchTable rows={rows} component={component} picked={picked} onPick={setPicked} />
        </>
      )}
    </Panel>
  );
}

function Choice(props: {
  label: string;
  /** Text of the choice of all. */
  all: string;
  values: readonly string[];
  value: string;
  onChange: (value: string) => void;
}) {
  const { label, all, values, value, onChange } = props;
  return (
    <Field label={label}>
      {(control) => (
        <select {...control} value={value} onChange={({ target }) => onChange(target.value)}>
          <option value="">{all}</option>
          {/* An address may name a value that no bench has. */}
          {[...new Set([...values, ...(value === '' ? [] : [value])])].map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      )}
    </Field>
  );
}

function BenchTable(props: {
  rows: readonly BenchSummary[];
  component: string;
  picked: readonly string[];
  onPick: (ids: readonly string[]) => void;
}) {
  const { rows, component, picked, onPick } = props;
  const toggle = (id: string) =>
    onPick(picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id].slice(-2));
  const componentColumns = [
    {
      key: 'component',
      head: `GPU time of ${component}`,
      number: true,
      cell: (one: BenchSummary) => optional(componentOf(one, component)?.ms, formatMs),
    },
    {
      key: 'builtin',
      head: 'With built-ins',
      number: true,
      cell: (one: BenchSummary) => optional(componentOf(one, component)?.builtinMs, formatMs),
    },
    { key: 'by', head: 'Run by', cell: (one: BenchSummary) => componentOf(one, component)?.kernel },
  ];
  return (
    <Table
      caption="Benches, latest first"
      rows={rows}
      keyOf={({ id }) => id}
      isSelected={({ id }) => picked.includes(id)}
      columns={[
        {
          key: 'pick',
          head: 'Compare',
          cell: ({ id, at, is_complete: isComplete }) =>
            isComplete ? (
              <input
                type="checkbox"
                aria-label={`Compare the bench of ${formatTime(at)}`}
                checked={picked.includes(id)}
                onChange={() => toggle(id)}
              />
            ) : (
              'no raw times'
            ),
        },
        {
          key: 'at',
          head: 'Ended',
          cell: ({ id, at, is_complete: isComplete }) =>
            isComplete ? <Link href={benchPath(id)}>{formatTime(at)}</Link> : formatTime(at),
        },
        { key: 'kernels', head: 'Kernels', cell: Kernels },
        { key: 'verdict', head: 'Decode', cell: (one) => <VerdictBadge verdict={verdictOfBench(one)} /> },
        {
          key: 'decode',
          head: 'Change (95 % interval)',
          number: true,
          cell: ({ decode }) => (decode ? formatEstimate(decode) : ''),
        },
        ...(component === ''
          ? [
              {
                key: 'tps',
                head: 'Decode tokens/s',
                number: true,
                cell: (one: BenchSummary) => optional(one.bound_decode_tps, formatFigure),
              },
              {
                key: 'prefill',
                head: 'Prompt tokens/s',
                number: true,
                cell: (one: BenchSummary) => optional(one.bound_prefill_tps, formatFigure),
              },
            ]
          : componentColumns),
        { key: 'rounds', head: 'Rounds', number: true, cell: ({ rounds }) => rounds },
        { key: 'model', head: 'Model', cell: ({ model }) => model },
        { key: 'lathe', head: 'lathe', cell: ({ lathe }) => lathe ?? 'earlier' },
      ]}
    />
  );
}

const optional = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? '' : format(value);

const Kernels = ({ kernels }: BenchSummary): ReactNode =>
  kernels.length === 0
    ? 'built-in kernels'
    : kernels.map(({ name, digest }) => (
        <div key={name} className={css['kernel']}>
          <Link href={kernelPath(digest)}>{name}</Link> <code>{shortDigest(digest)}</code>
        </div>
      ));
