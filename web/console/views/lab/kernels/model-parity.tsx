import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, held } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';
import { Badge, Button, Facts, FaultNote, Field, Loading, Panel, Table } from '../../../parts/index.tsx';
import css from './kernels.module.css';
import { asPart, figure, ParityMap } from './parity-map.tsx';

type Mode = components['schemas']['ParityMode'];
type Outcome = components['schemas']['ParityRunResult'];

/** Parity settings, and a parity run of the bound kernels on the live graph. */
export function ModelParity() {
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const run = useMutation({
    mutationFn: async () => {
      const controller = new AbortController();
      running.current = controller;
      try {
        return await held(api.POST('/lab/v1/parity/run', { signal: controller.signal }));
      } catch (error) {
        if (controller.signal.aborted) return undefined;
        throw error;
      }
    },
  });
  return (
    <Panel
      title="Whole-model parity"
      tools={
        <>
          {run.isPending && <Button onClick={() => running.current?.abort()}>Stop the run</Button>}
          <Button kind="primary" busy={run.isPending} onClick={() => run.mutate()}>
            {run.isPending ? 'Comparing ...' : 'Compare bound kernels'}
          </Button>
        </>
      }
    >
      <ModeForm />
      <div role="status">
        {run.isPending &&
          'The run waits for running completions, then compares each bound component and the logits.'}
      </div>
      {run.error && <FaultNote error={run.error} />}
      {run.data && <ParityOutcome outcome={run.data} />}
    </Panel>
  );
}

function ParityOutcome({ outcome }: { outcome: Outcome }) {
  const { components: rows, logits, ok, seed, mode, tolerance_scale: scale } = outcome;
  const cells = rows.map(({ id, nmse, nmse_limit: limit }) => {
    const part = nmse === null || nmse > 1e300 ? Number.POSITIVE_INFINITY : nmse / limit;
    return { of: id, part, said: `NMSE ${figure(nmse)}, ${asPart(part)} of the limit` };
  });
  return (
    <>
      <p role="status">
        <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'passed' : 'failed'}</Badge>{' '}
        {rows.length === 0
          ? 'Nothing is bound, so the built-ins were compared with themselves.'
          : `${rows.filter((one) => one.ok).length} of ${rows.length} components are within their limits.`}
      </p>
      <Facts
        facts={[
          ['KL of the logits', `${figure(logits.kl)} nats, mean over ${logits.positions} positions`],
          ['Same top token', asPart(logits.top1_agreement)],
          ['Mode', `${mode}${scale === 1 ? '' : `, tolerance scale ${scale}`}, seed ${seed}`],
        ]}
      />
      {rows.length > 0 && (
        <>
          <ParityMap label="Error by component" lines={[{ name: 'Error', cells }]} />
          <Table
            caption="Parity by component"
            rows={rows}
            keyOf={({ id }) => id}
            columns={[
              {
                key: 'ok',
                head: 'Verdict',
                cell: (row) => <Badge tone={row.ok ? 'good' : 'bad'}>{row.ok ? 'passed' : 'failed'}</Badge>,
              },
              { key: 'id', head: 'Component', cell: ({ id }) => <code>{id}</code> },
              { key: 'kernel', head: 'Kernel', cell: ({ kernel }) => kernel },
              { key: 'nmse', head: 'NMSE', number: true, cell: ({ nmse }) => figure(nmse) },
              { key: 'limit', head: 'Limit', number: true, cell: (row) => figure(row.nmse_limit) },
              { key: 'abs', head: 'Max abs', number: true, cell: (row) => figure(row.max_abs) },
            ]}
          />
        </>
      )}
    </>
  );
}

function ModeForm() {
  const now = useQuery({ queryKey: ['lab', 'parity'], queryFn: () => held(api.GET('/lab/v1/parity')) });
  if (now.error) return <FaultNote error={now.error} retry={() => void now.refetch()} />;
  if (!now.data) return <Loading what="the parity mode" />;
  return <ModeFields key={JSON.stringify(now.data)} now={now.data} changed={() => void now.refetch()} />;
}

function ModeFields({ now, changed }: { now: Mode; changed: () => void }) {
  const [mode, setMode] = useState(now.mode);
  const [scale, setScale] = useState(String(now.tolerance_scale ?? ''));
  const [seed, setSeed] = useState(String(now.seed ?? ''));
  const wanted: Mode = {
    mode,
    ...(scale.trim() === '' ? {} : { tolerance_scale: Number(scale) }),
    ...(seed.trim() === '' ? {} : { seed: Number(seed) }),
  };
  const save = useMutation({
    mutationFn: () => held(api.PUT('/lab/v1/parity', { body: wanted })),
    onSuccess: changed,
  });
  const isSame = JSON.stringify(wanted) === JSON.stringify({ ...now });
  return (
    <form
      className={css['line']}
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Field label="Mode" hint="Applies to later checks and runs.">
        {(control) => (
          <select {...control} value={mode} onChange={({ target }) => setMode(target.value as Mode['mode'])}>
            <option value="strict">strict</option>
            <option value="standard">standard</option>
            <option value="off">off: compile only</option>
          </select>
        )}
      </Field>
      <Field label="Tolerance scale" hint="0.01 to 10">
        {(control) => (
          <input
            {...control}
            value={scale}
            placeholder="1"
            inputMode="decimal"
            onChange={({ target }) => setScale(target.value)}
          />
        )}
      </Field>
      <Field label="Seed" hint="Empty: a new seed each time.">
        {(control) => (
          <input
            {...control}
            value={seed}
            placeholder="random"
            inputMode="numeric"
            onChange={({ target }) => setSeed(target.value)}
          />
        )}
      </Field>
      <Button type="submit" disabled={isSame} busy={save.isPending}>
        Set the mode
      </Button>
      {save.error && <FaultNote error={save.error} />}
    </form>
  );
}
