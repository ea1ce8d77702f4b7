import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';
import { Button, Facts, FaultNote, Field, Loading, Panel, Table } from '../../../../ui/index.tsx';
import css from './kernels.module.css';
import { formatLimitShare, formatError, ParityHeatMap } from './parity-heat-map.tsx';
import { StateBadge } from '../../../../ui/state-badge.tsx';

type Mode = components['schemas']['ParityMode'];
type ParityRunResult = components['schemas']['ParityRunResult'];

/** Parity settings, and a parity run of the bound kernels on the live graph. */
export function ModelParity() {
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const run = useMutation({
    mutationFn: async () => {
      const controller = new AbortController();
      running.current = controller;
      try {
        return await unwrap(api.POST('/lab/v1/parity/run', { signal: controller.signal }));
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
      <ParityModeForm />
      <div role="status">
        {run.isPending &&
          'The run waits for running completions, then compares each bound component and the logits.'}
      </div>
      {run.error && <FaultNote error={run.error} />}
      {run.data && <ParityResultView result={run.data} />}
    </Panel>
  );
}

function ParityResultView({ result }: { result: ParityRunResult }) {
  const { components: rows, logits, ok, seed, mode, tolerance_scale: scale } = result;
  const cells = rows.map(({ id, nmse, nmse_limit: limit }) => {
    const limitShare = nmse === null || nmse > 1e300 ? Number.POSITIVE_INFINITY : nmse / limit;
    return {
      name: id,
      limitShare,
      text: `NMSE ${formatError(nmse)}, ${formatLimitShare(limitShare)} of the limit`,
    };
  });
  return (
    <>
      <p role="status">
        <StateBadge state={ok ? 'passed' : 'failed'} isRecorded />{' '}
        {rows.length === 0
          ? 'Nothing is bound, so the built-ins were compared with themselves.'
          : `${rows.filter((one) => one.ok).length} of ${rows.length} components are within their limits.`}
      </p>
      <Facts
        facts={[
          ['KL of the logits', `${formatError(logits.kl)} nats, mean over ${logits.positions} positions`],
          ['Same top token', formatLimitShare(logits.top1_agreement)],
          ['Mode', `${mode}${scale === 1 ? '' : `, tolerance scale ${scale}`}, seed ${seed}`],
        ]}
      />
      {rows.length > 0 && (
        <>
          <ParityHeatMap label="Error by component" rows={[{ name: 'Error', cells }]} />
          <Table
            caption="Parity by component"
            rows={rows}
            keyOf={({ id }) => id}
            columns={[
              {
                key: 'ok',
                head: 'Verdict',
                cell: (row) => <StateBadge state={row.ok ? 'passed' : 'failed'} isRecorded />,
              },
              { key: 'id', head: 'Component', cell: ({ id }) => <code>{id}</code> },
              { key: 'kernel', head: 'Kernel', cell: ({ kernel }) => kernel },
              { key: 'nmse', head: 'NMSE', number: true, cell: ({ nmse }) => formatError(nmse) },
              { key: 'limit', head: 'Limit', number: true, cell: (row) => formatError(row.nmse_limit) },
              { key: 'abs', head: 'Max abs', number: true, cell: (row) => formatError(row.max_abs) },
            ]}
          />
        </>
      )}
    </>
  );
}

function ParityModeForm() {
  const current = useQuery({ queryKey: ['lab', 'parity'], queryFn: () => unwrap(api.GET('/lab/v1/parity')) });
  if (current.error) return <FaultNote error={current.error} retry={() => void current.refetch()} />;
  if (!current.data) return <Loading what="the parity mode" />;
  return (
    <ParityModeFields
      key={JSON.stringify(current.data)}
      current={current.data}
      onChange={() => void current.refetch()}
    />
  );
}

function ParityModeFields({ current, onChange }: { current: Mode; onChange: () => void }) {
  const [mode, setMode] = useState(current.mode);
  const [scale, setScale] = useState(String(current.tolerance_scale ?? ''));
  const [seed, setSeed] = useState(String(current.seed ?? ''));
  const edited: Mode = {
    mode,
    ...(scale.trim() === '' ? {} : { tolerance_scale: Number(scale) }),
    ...(seed.trim() === '' ? {} : { seed: Number(seed) }),
  };
  const save = useMutation({
    mutationFn: () => unwrap(api.PUT('/lab/v1/parity', { body: edited })),
    onSuccess: onChange,
  });
  const isSame = JSON.stringify(edited) === JSON.stringify({ ...current });
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
