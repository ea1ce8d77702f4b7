import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { api, Fault, unwrap } from '../../../api/client.ts';
import {
  Badge,
  Button,
  Confirm,
  Dialog,
  Empty,
  FaultNote,
  Loading,
  Panel,
  Row,
  Table,
} from '../../../parts/index.tsx';
import { BindForm } from './bind-form.tsx';
import { isChanged, saveDraft, readDraft, type SentKernel, findSentKernel } from './drafts.ts';
import css from './kernels.module.css';
import { type Kernel, summarizeComponents, useParts, useRefreshLab } from './queries.ts';

const stateTones = {
  accepted: 'good',
  unverified: 'warn',
  stale: 'warn',
  rejected: 'bad',
  quarantined: 'bad',
} as const;

/**
 * Kernels registered since the host started, and where they are bound. @param props.opened called when a kernel's
 * source was put into the workbench
 */
export function RegisteredKernels({ onOpened }: { onOpened: (op: string) => void }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const [, navigate] = useLocation();
  const [binding, setBinding] = useState<string>();
  const [replaceCandidate, setReplaceCandidate] = useState<{ kernel: Kernel; sent: SentKernel }>();
  const unbind = useMutation({
    mutationFn: () => unwrap(api.DELETE('/lab/v1/bindings')),
    onSettled: refresh,
  });
  if (parts.error) return <FaultNote error={parts.error} retry={() => void parts.refetch()} />;
  if (!parts.data) return <Loading what="the registered kernels" />;
  const { components, kernels } = parts.data;
  const componentsOf = (name: string) =>
    components.filter(({ kernel }) => kernel === name).map(({ id }) => id);
  const names = new Set(kernels.map(({ name }) => name));
  const bound = components.filter(({ kernel }) => names.has(kernel)).length;
  const openInWorkbench = ({ op }: Kernel, { source, report }: SentKernel) => {
    const draft = readDraft(op);
    saveDraft(op, {
      source,
      stub: draft?.stub ?? '',
      target: draft?.target ?? 'plain',
      checked: { source, report },
    });
    setReplaceCandidate(undefined);
    onOpened(op);
    navigate(`/console/lab/kernels/${op}`);
  };
  const openOrConfirm = (kernel: Kernel, sent: SentKernel) => {
    const draft = readDraft(kernel.op);
    if (draft && isChanged(draft) && draft.source !== sent.source && draft.source !== draft.checked?.source)
      setReplaceCandidate({ kernel, sent });
    else openInWorkbench(kernel, sent);
  };
  return (
    <Panel
      title="Registered kernels"
      tools={
        <>
          <span className={css['note']} role="status">
            {bound === 0
              ? 'All components run built-in kernels.'
              : `${bound} of ${components.length} components run registered kernels.`}
          </span>
          <Button disabled={bound === 0} busy={unbind.isPending} onClick={() => unbind.mutate()}>
            Unbind all
          </Button>
        </>
      }
    >
      {unbind.error && <FaultNote error={unbind.error} />}
      {kernels.length === 0 ? (
        <Empty title="No kernel is registered.">
          Choose an op above; its stub is already a correct kernel. Registered kernels are lost when the host
          exits; a saved <Link href="/console/lab/configs">config</Link> keeps them.
        </Empty>
      ) : (
        <Table
          caption="Registered kernels, latest first"
          rows={kernels.toReversed()}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', head: 'Kernel', cell: ({ name }) => <strong>{name}</strong> },
            { key: 'op', head: 'Op', cell: ({ op }) => op },
            {
              key: 'state',
              head: 'Verdict',
              cell: (kernel) => (
                <>
                  <Badge tone={stateTones[kernel.state]}>{kernel.state}</Badge>
                  <StateReason kernel={kernel} />
                </>
              ),
            },
            {
              key: 'runs',
              head: 'Components',
              cell: ({ name }) => summarizeComponents(componentsOf(name)) || 'none',
            },
            {
              key: 'digest',
              head: 'Digest',
              cell: ({ digest }) => <code title={digest}>{digest.replace('sha256:', '').slice(0, 12)}</code>,
            },
            {
              key: 'do',
              head: 'Actions',
              cell: (kernel) => {
                const sent = findSentKernel(kernel.digest);
                return (
                  <Row>
                    {sent && (
                      <Button
                        aria-label={`Open ${kernel.name} in the workbench`}
                        onClick={() => openOrConfirm(kernel, sent)}
                      >
                        Open
                      </Button>
                    )}
                    {(kernel.state === 'accepted' || kernel.state === 'unverified') && (
                      <Button aria-label={`Bind ${kernel.name}`} onClick={() => setBinding(kernel.name)}>
                        Bind ...
                      </Button>
                    )}
                  </Row>
                );
              },
            },
          ]}
        />
      )}
      <Dialog
        title={`Bind ${binding ?? ''}`}
        isOpen={binding !== undefined}
        onClose={() => setBinding(undefined)}
      >
        {binding !== undefined && <BindForm kernel={binding} />}
        <Row>
          <Button onClick={() => setBinding(undefined)}>Close</Button>
        </Row>
      </Dialog>
      <Confirm
        title={`Replace your draft for ${replaceCandidate?.kernel.op ?? ''}?`}
        isOpen={replaceCandidate !== undefined}
        action="Replace"
        onClose={() => setReplaceCandidate(undefined)}
        onConfirm={() => replaceCandidate && openInWorkbench(replaceCandidate.kernel, replaceCandidate.sent)}
      >
        <p>
          The workbench has an unregistered draft for this op. The source of {replaceCandidate?.kernel.name}{' '}
          replaces it.
        </p>
      </Confirm>
    </Panel>
  );
}

/** Why a kernel cannot run: the first gate error seen in this tab, or the reason of its quarantine. */
function StateReason({ kernel: { name, state, digest } }: { kernel: Kernel }) {
  const isQuarantined = state === 'quarantined';
  // The list has no reason, but the refusal to bind has. The glob matches no component, so nothing can be bound.
  const refusal = useQuery({
    queryKey: ['lab-quarantine', digest],
    enabled: isQuarantined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const body = { kernel: name, components: ['none.to.bind'] };
      try {
        await unwrap(api.POST('/lab/v1/bindings', { body }));
      } catch (error) {
        if (error instanceof Fault && error.code === 'not_bindable') return error.message;
      }
      return 'The device or the host was lost while this kernel was bound. It cannot be bound again.';
    },
  });
  if (isQuarantined) return <div className={css['why']}>{refusal.data}</div>;
  if (state === 'stale')
    return (
      <div className={css['why']}>
        Checked on another adapter, driver, model or version: register it again.
      </div>
    );
  if (state === 'unverified')
    return <div className={css['why']}>Compiled, not compared: parity was off.</div>;
  const first = findSentKernel(digest)
    ?.report.stages.flatMap(({ stage, findings }) => findings.map((finding) => ({ ...finding, stage })))
    .find(({ severity }) => severity === 'error');
  if (state !== 'rejected' || !first) return null;
  return (
    <div className={css['why']}>
      {first.stage}: {first.message}
    </div>
  );
}
