import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { api, unwrap } from '../../../../api/client.ts';
import { CopyValue } from '../../../../ui/copy.tsx';
import { Button, Dialog, Empty, FaultNote, Loading, Panel, Row, Table } from '../../../../ui/index.tsx';
import { BindForm } from './bind-form.tsx';
import css from './kernels.module.css';
import { useOpenInWorkbench } from './open-in-workbench.tsx';
import { kernelPath, shortDigest } from './paths.ts';
import { fetchKernel, type Kernel, summarizeComponents, useParts, useRefreshLab } from './queries.ts';
import { StateBadge } from '../../../../ui/state-badge.tsx';

/**
 * Kernels that the host knows, also from earlier starts, and where they are bound.
 * @param props.onOpened called when a kernel's source was put into the workbench
 */
export function RegisteredKernels({ onOpened }: { onOpened: () => void }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const [binding, setBinding] = useState<string>();
  const workbench = useOpenInWorkbench(onOpened);
  const open = useMutation({ mutationFn: fetchKernel, onSuccess: workbench.open });
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
      {open.error && <FaultNote error={open.error} />}
      {kernels.length === 0 ? (
        <Empty title="No kernel is registered.">
          Choose an op above; its stub is already a correct kernel. The host keeps registered kernels; a saved{' '}
          <Link href="/console/lab/configs">config</Link> takes them to other hosts.
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
            {
              key: 'name',
              head: 'Kernel',
              cell: ({ name }) => <Link href={kernelPath(name)}>{name}</Link>,
            },
            { key: 'op', head: 'Op', cell: ({ op }) => op },
            {
              key: 'state',
              head: 'Verdict',
              cell: (kernel) => (
                <>
                  <StateBadge state={kernel.state} />
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
                  {shortDigest(digest)}
                </CopyValue>
              ),
            },
            {
              key: 'do',
              head: 'Actions',
              cell: ({ name, state }) => (
                <Row>
                  <Button
                    aria-label={`Edit ${name} in the workbench`}
                    busy={open.isPending && open.variables === name}
                    onClick={() => open.mutate(name)}
                  >
                    Edit
                  </Button>
                  {(state === 'accepted' || state === 'unverified') && (
                    <Button aria-label={`Bind ${name}`} onClick={() => setBinding(name)}>
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
      {workbench.dialog}
    </Panel>
  );
}

/** Why a kernel cannot be bound, in a line that leads to its report. */
const StateReason = ({ kernel: { name, reason } }: { kernel: Kernel }) =>
  reason === undefined ? null : (
    <div className={css['why']}>
      {reason}{' '}
      <Link href={`${kernelPath(name)}#report`} aria-label={`Report of ${name}`}>
        Report
      </Link>
    </div>
  );
