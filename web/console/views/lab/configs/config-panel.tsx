import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatTime } from '../../../../ui/format.ts';
import { Badge, Button, Confirm, Facts, FaultNote, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { summarizeComponents, useRefreshLab } from '../kernels/queries.ts';
import { applyConfig, type ApplyStep } from './apply-config.ts';
import type { Config } from './config-text.ts';
import css from './configs.module.css';
import { useConfig } from './queries.ts';
import { StateBadge } from '../../../../ui/state-badge.tsx';

/** A saved config: bindings, validation and signature, and a button to apply it. */
export function ConfigPanel({ name }: { name: string }) {
  const config = useConfig(name);
  const refresh = useRefreshLab();
  const running = useRef<AbortController>(null);
  const [steps, setSteps] = useState<readonly ApplyStep[]>([]);
  const [isConfirming, setConfirming] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const apply = useMutation({
    mutationFn: async (of: Config) => {
      const controller = new AbortController();
      running.current = controller;
      setSteps([]);
      const addStep = (step: ApplyStep) => setSteps((before) => [...before, step]);
      return await applyConfig(of, addStep, controller.signal);
    },
    onSettled: refresh,
  });
  if (config.error) return <FaultNote error={config.error} retry={() => void config.refetch()} />;
  if (!config.data) return <Loading what={name} />;
  const { model, bindings, kernels, evidence, fingerprint, created_at: created, signature } = config.data;
  return (
    <Panel
      title={`Config ${name}`}
      tools={
        <Button kind="primary" busy={apply.isPending} onClick={() => setConfirming(true)}>
          {apply.isPending ? 'Applying ...' : 'Apply'}
        </Button>
      }
    >
      {(steps.length > 0 || apply.isPending) && (
        <ol className={css['steps']} role="log" aria-label={`Applying ${name}`}>
          {steps.map((step) => (
            <li key={step.name}>
              <StateBadge state={step.state} isRecorded /> <strong>{step.name}</strong>{' '}
              <span className={css['said']}>{step.message}</span>
            </li>
          ))}
          {apply.data === true && <li>Bound. It takes effect from the next token.</li>}
        </ol>
      )}
      {apply.error && <FaultNote error={apply.error} />}
      <Table
        caption={`Bindings of ${name}`}
        rows={bindings}
        keyOf={({ kernel }) => kernel}
        columns={[
          { key: 'kernel', head: 'Kernel', cell: ({ kernel }) => <strong>{kernel}</strong> },
          { key: 'op', head: 'Op', cell: ({ kernel }) => kernels.find((each) => each.name === kernel)?.op },
          {
            key: 'components',
            head: 'Components',
            cell: ({ components }) => summarizeComponents(components),
          },
          {
            key: 'evidence',
            head: 'Evidence',
            cell: ({ kernel }) => evidenceText(evidence[kernel]),
          },
        ]}
      />
      <Validation name={name} />
      <h3>Signature and fingerprint</h3>
      <Facts
        facts={[
          ['Saved', formatTime(created)],
          ['Signature', `${signature.alg}, key ${signature.key_id}`],
          ['Public key', <CopyValue key="key" value={signature.public_key} label="the public key" />],
          [
            'Model',
            <span key="model">
              {model.architecture}, <CopyValue value={model.digest} label="the model's digest" />
            </span>,
          ],
          ['Adapter', `${fingerprint.adapter}, ${fingerprint.backend}`],
          ['Driver', fingerprint.driver],
          ['Dawn', [fingerprint.dawn, ...fingerprint.toggles].join(', ')],
          ['Features', fingerprint.features.join(', ') || 'none'],
        ]}
      />
      <Confirm
        title={`Apply ${name}?`}
        isOpen={isConfirming}
        action="Apply"
        onClose={() => setConfirming(false)}
        onConfirm={() => {
          setConfirming(false);
          apply.mutate(config.data);
        }}
      >
        <p>
          Its kernels are checked again first. If all are accepted, its bindings replace the current ones.
          Registered kernels with the same names are replaced.
        </p>
      </Confirm>
    </Panel>
  );
}

function evidenceText(report: Config['evidence'][string] | undefined): string {
  if (!report) return 'none';
  const cases = report.parity?.length ?? 0;
  const passed = report.parity?.filter(({ ok }) => ok).length ?? 0;
  return `${passed} of ${cases} cases passed${report.tolerance ? `, ${report.tolerance.mode}` : ''}`;
}

const stageTexts = {
  signature: 'The config is unchanged and signed with a key that this host trusts.',
  safety: 'The kernels pass the static checks.',
  parity: 'The gate accepted the kernels.',
};

/** Validation result. It runs no kernel, so it is loaded whenever the config is shown. */
function Validation({ name }: { name: string }) {
  const report = useQuery({
    queryKey: ['lab', 'validation', name],
    queryFn: () => unwrap(api.POST('/lab/v1/validate', { body: { path: `${name}.json` } })),
  });
  if (report.error) return <FaultNote error={report.error} retry={() => void report.refetch()} />;
  if (!report.data) return <Loading what="the validation" />;
  return (
    <>
      <h3>
        Validation{' '}
        <Badge tone={report.data.ok ? 'good' : 'bad'}>
          {report.data.ok ? 'valid on this host' : 'not valid on this host'}
        </Badge>
      </h3>
      <Table
        caption={`Validation of ${name}`}
        rows={report.data.stages}
        keyOf={({ stage }) => stage}
        columns={[
          { key: 'stage', head: 'Stage', cell: ({ stage }) => stage },
          {
            key: 'ok',
            head: 'Verdict',
            cell: ({ ok, skipped }) => (
              <StateBadge state={skipped ? 'skipped' : ok ? 'passed' : 'failed'} isRecorded />
            ),
          },
          {
            key: 'findings',
            head: 'Findings',
            cell: ({ stage, ok, skipped, findings }) =>
              findings.length > 0 ? (
                <ul className={css['findings']}>
                  {findings.map(({ code, severity, message }) => (
                    <li key={`${code} ${message}`}>
                      {severity}: {message} <code>{code}</code>
                    </li>
                  ))}
                </ul>
              ) : skipped ? (
                'An earlier stage failed.'
              ) : (
                ok && stageTexts[stage]
              ),
          },
        ]}
      />
    </>
  );
}
