import { useEffect, useState } from 'react';
import { formatMs } from '../../../../ui/format.ts';
import { Button, Field, Panel, Row } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { useBenchRuns } from '../bench-runs.tsx';
import { type BenchRequest, type BenchRun, stageText } from './runs.ts';
import css from './bench.module.css';

const fields = [
  ['rounds', 'Rounds', 'until the intervals are narrow'],
  ['prompt_tokens', 'Prompt tokens', 'depends on the mode'],
  ['new_tokens', 'Decoded tokens per round', 'as needed for the clock'],
  ['contexts', 'Contexts', '32, 128, 512'],
] as const;
type Name = (typeof fields)[number][0];

/** Form to start a bench. Empty fields use the defaults of the host. */
export function RunForm() {
  const { start, stop, running } = useBenchRuns();
  const [mode, setMode] = useUrlState('mode', 'quick');
  const [values, setValues] = useState<Partial<Record<Name, string>>>({});
  const { request, faults } = requestOf(mode === 'full' ? 'full' : 'quick', values);
  return (
    <Panel title="Run">
      <form
        className={css['run']}
        onSubmit={(event) => {
          event.preventDefault();
          if (Object.keys(faults).length === 0) start(request);
        }}
      >
        <Field
          label="Mode"
          hint="Quick takes about 10 seconds after the first run. Full takes up to a few minutes and detects smaller differences."
        >
          {(control) => (
            <select {...control} value={mode} onChange={({ target }) => setMode(target.value)}>
              <option value="quick">Quick</option>
              <option value="full">Full</option>
            </select>
          )}
        </Field>
        <details>
          <summary>Bench options</summary>
          <div className={css['fields']}>
            {fields.map(([name, label, placeholder]) => (
              <Field key={name} label={label} fault={faults[name]}>
                {(control) => (
                  <input
                    {...control}
                    inputMode="numeric"
                    placeholder={placeholder}
                    value={values[name] ?? ''}
                    onChange={({ target }) => setValues({ ...values, [name]: target.value })}
                  />
                )}
              </Field>
            ))}
          </div>
        </details>
        <Row>
          {/* Separate keys: a reused button could start the next bench on the same click. */}
          {running ? (
            <Button key="stop" onClick={stop}>
              Stop the bench
            </Button>
          ) : (
            <Button key="run" type="submit" kind="primary">
              Run the bench
            </Button>
          )}
        </Row>
      </form>
      {running && <BenchProgress run={running} />}
    </Panel>
  );
}

function BenchProgress({ run }: { run: BenchRun }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const last = run.rounds.at(-1);
  return (
    <div className={css['progress']}>
      <progress
        aria-label="Rounds of the bench"
        {...(last && run.stage === 'round' ? { value: last.round, max: last.most } : {})}
      />
      <span role="status">The host {stageText(run)}.</span>
      <span>{formatMs(Math.max(0, Math.floor((now - run.startedAt) / 1000)) * 1000)}</span>
      <small>Leaving the lab stops it.</small>
    </div>
  );
}

function requestOf(mode: 'quick' | 'full', values: Partial<Record<Name, string>>) {
  const faults: Partial<Record<Name, string>> = {};
  const request: BenchRequest = { mode };
  for (const [name, label] of fields) {
    const parts = (values[name] ?? '').split(/[\s,]+/).filter((word) => word !== '');
    if (parts.length === 0) continue;
    const numbers = parts.map(Number);
    const isPositiveInteger = numbers.every((one) => Number.isInteger(one) && one > 0);
    if (!isPositiveInteger || (name !== 'contexts' && numbers.length > 1)) {
      faults[name] =
        `${label}: expected ${name === 'contexts' ? 'whole numbers above 0, separated by commas' : 'a whole number above 0'}, got '${values[name]}'`;
    } else if (name === 'contexts') request.contexts = numbers;
    else if (numbers[0] !== undefined) request[name] = numbers[0];
  }
  return { request, faults };
}
