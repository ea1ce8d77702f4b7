import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { api, Fault, unwrap } from '../../../../api/client.ts';
import { CopyValue } from '../../../../ui/copy.tsx';
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
} from '../../../../ui/index.tsx';
import { BindForm } from './bind-form.tsx';
import { isChanged, saveDraft, readDraft } from './drafts.ts';
import { KernelHistory } from './kernel-history.tsx';
import css from './kernels.module.css';
import {
  fetchKernel,
  type Kernel,
  type KernelDetail,
  summarizeComponents,
  useParts,
  useRefreshLab,
} from './queries.ts';

/** What is put into the workbench: a registration, and its report where that is the last one. */
interface Opened {
  readonly registration: KernelDetail['registration'];
  readonly report?: KernelDetail['report'];
}

const stateTones = {
  accepted: 'good',
  unverified: 'warn',
  stale: 'warn',
  rejected: 'bad',
  quarantined: 'bad',
} as const;

/**
 * Kernels that the host knows, also from earlier starts, and where they are bound.
 * @param props.onOpened called when a kernel's source was put into the workbench
 */
export function RegisteredKernels({ onOpened }: { onOpened: (op: string) => void }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const [, navigate] = useLocation();
  const [binding, setBinding] = useState<string>();
  const [historyOf, setHistoryOf] = useState<string>();
  const [replaceCandidate, setReplaceCandidate] = useState<Opened>();
  const open = useMutation({
    mutationFn: fetchKernel,
    onSuccess: ({ registration, report }) => openOrConfirm({ registration, report }),
  });
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
  const openInWorkbench = ({ registration: { op, source }, report }: Opened) => {
    const draft = readDraft(op);
    saveDraft(op, {
      source,
      stub: draft?.stub ?? '',
      target: draft?.target ?? 'plain',
      ...(report ? { checked: { source, report } } : {}),
    });
    setReplaceCandidate(undefined);
    setHistoryOf(undefined);
    onOpened(op);
    navigate(`/console/lab/kernels/${op}`);
  };
  const openOrConfirm = (opened: Opened) => {
    const { op, source } = opened.registration;
    const draft = readDraft(op);
    if (draft && isChanged(draft) && draft.source !== source && draft.source !== draft.checked?.source)
      setReplaceCandidate(opened);
    else openInWorkbench(opened);
  };
  return (
    <>
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
        {open.error && <FaultNote error={open.error} />}
        {kernels.length === 0 ? (
          <Empty title="No kernel is registered.">
            Choose an op above; its stub is already a correct kernel. The host keeps registered kernels; a
            saved <Link href="/console/lab/configs">config</Link> takes them to other hosts.
          </Empty>
        ) : (
          <Table
            caption="Registered kernels, latest first"
            rows={kernels.toReversed()}
            keyOf={({ name }) => name}
            filter={{
              what: 'kernels',
              textOf: ({ name, op, state, digest }) =>
                `${name} ${op} ${state} ${digest} ${componentsOf(name).join(' ')}`,
            }}
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
                cell: ({ name, digest }) => (
                  <CopyValue value={digest} label={`the digest of ${name}`}>
                    {digest.replace('sha256:', '').slice(0, 12)}
                  </CopyValue>
                ),
              },
              {
                key: 'do',
                head: 'Actions',
                cell: (kernel) => (
                  <Row>
                    <Button
                      aria-label={`Open ${kernel.name} in the workbench`}
                      busy={open.isPending && open.variables === kernel.name}
                      onClick={() => open.mutate(kernel.name)}
                    >
                      Open
                    </Button>
                    <Button
                      aria-label={`History of ${kernel.name}`}
                      aria-expanded={historyOf === kernel.name}
                      onClick={() => setHistoryOf(historyOf === kernel.name ? undefined : kernel.name)}
                    >
                      History
                    </Button>
                    {(kernel.state === 'accepted' || kernel.state === 'unverified') && (
                      <Button aria-label={`Bind ${kernel.name}`} onClick={() => setBinding(kernel.name)}>
                        Bind ...
                      </Button>
                    )}
                  </Row>
                ),
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
          title={`Replace your draft for ${replaceCandidate?.registration.op ?? ''}?`}
          isOpen={replaceCandidate !== undefined}
          action="Replace"
          onClose={() => setReplaceCandidate(undefined)}
          onConfirm={() => replaceCandidate && openInWorkbench(replaceCandidate)}
        >
          <p>
            The workbench has an unregistered draft for this op. The source of{' '}
            {replaceCandidate?.registration.name} replaces it.
          </p>
        </Confirm>
      </Panel>
      {historyOf !== undefined && (
        <Panel
          title={`History of ${historyOf}`}
          tools={<Button onClick={() => setHistoryOf(undefined)}>Close the history</Button>}
        >
          <KernelHistory
            key={historyOf}
            kernel={historyOf}
            onOpen={(registration) => openOrConfirm({ registration })}
          />
        </Panel>
      )}
    </>
  );
}

/** Why a kernel cannot run: the first error of the gate, or the reason of its quarantine. */
function StateReason({ kernel: { name, state, digest } }: { kernel: Kernel }) {
  const isQuarantined = state === 'quarantined';
  const rejected = useQuery({
    queryKey: ['lab-rejected', name, digest],
    enabled: state === 'rejected',
    queryFn: () => fetchKernel(name),
  });
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
  const first = rejected.data?.report.stages
    .flatMap(({ stage, findings }) => findings.map((finding) => ({ ...finding, stage })))
    .find(({ severity }) => severity === 'error');
  if (state !== 'rejected' || !first) return null;
  return (
    <div className={css['why']}>
      {first.stage}: {first.message}
    </div>
  );
}
