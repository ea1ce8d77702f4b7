import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, Redirect, useLocation } from 'wouter';
import { agentsCss as css, consolePath } from '../../agents/parts.tsx';
import type { Ensemble } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';
import { asFault } from '../../../api/fault.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatTime } from '../../../ui/format.ts';
import { Badge, Button, Confirm, Facts, FaultNote, Loading, Page, Panel } from '../../../ui/index.tsx';
import { ConsentFacts } from './consent-facts.tsx';
import { RunPanel } from './run-panel.tsx';
import { SourcePanel } from './source-panel.tsx';
import { lintReportOf, storeWorkflow } from './store-workflow.ts';
import { useUnsavedChangesWarning } from './use-unsaved-changes-warning.ts';
import { useLint } from './use-lint.ts';
import { useBuiltins } from './use-workflows.ts';

const fetchWorkflow = (name: string) =>
  unwrap(api.GET('/agent/v1/workflows/{name}', { params: { path: { name } } })) as Promise<Ensemble>;

/** A stored workflow: source, permissions and runs. */
export function WorkflowPage({ name }: { name: string }) {
  const workflow = useQuery({
    queryKey: ['workflows', name],
    queryFn: () => fetchWorkflow(name),
    // A refetch would discard unsaved edits.
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { data } = workflow;
  return (
    <Page
      title={`Workflow ${name}`}
      lead={data?.description}
      tools={<Link href="/console/workflows">All workflows</Link>}
    >
      {workflow.isPending && <Loading what="the workflow" />}
      {workflow.isError && (
        <MissingWorkflow name={name} error={workflow.error} retry={() => void workflow.refetch()} />
      )}
      {data && <StoredWorkflow workflow={data} />}
    </Page>
  );
}

/** Links from runs have only the name, which may belong to a built-in workflow. */
function MissingWorkflow({ name, error, retry }: { name: string; error: unknown; retry: () => void }) {
  const builtins = useBuiltins();
  if (asFault(error).status === 404 && builtins.data?.some((one) => one.name === name) === true)
    return <Redirect to={`/console/workflows/builtins/${name}`} replace />;
  return <FaultNote error={error} retry={retry} />;
}

function StoredWorkflow({ workflow }: { workflow: Ensemble }) {
  const { name } = workflow;
  const [source, setSource] = useState(workflow.source);
  const [confirming, setConfirming] = useState<'delete' | 'overwrite'>();
  const lint = useLint(source);
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const isSame = source === workflow.source;
  useUnsavedChangesWarning(!isSame);
  const save = useMutation({
    mutationFn: async ({ text, isOverwrite }: { text: string; isOverwrite: boolean }) => {
      if (!isOverwrite && (await fetchWorkflow(name)).digest !== workflow.digest) return undefined;
      return await storeWorkflow(text, name);
    },
    async onSuccess(stored) {
      setConfirming(stored ? undefined : 'overwrite');
      if (!stored) return;
      queries.setQueryData(['workflows', name], stored);
      await queries.invalidateQueries({ queryKey: ['workflows'], exact: true });
    },
  });
  const remove = useMutation({
    // The response has no body.
    mutationFn: () =>
      unwrap<unknown>(api.DELETE('/agent/v1/workflows/{name}', { params: { path: { name } } })),
    async onSuccess() {
      navigate('/console/workflows');
      queries.removeQueries({ queryKey: ['workflows', name] });
      await queries.invalidateQueries({ queryKey: ['workflows'] });
    },
    onSettled: () => setConfirming(undefined),
  });
  // Shown only until the next lint, so that findings do not change while typing.
  const refusedReport = save.variables?.text === lint.lintedSource ? lintReportOf(save.error) : undefined;
  const nameInSource = lint.report?.name;
  return (
    <div className={css['columns']}>
      <div className={css['stack']}>
        <SourcePanel source={source} onChange={setSource} lint={lint} refusedReport={refusedReport}>
          <Button
            kind="primary"
            busy={save.isPending}
            disabled={isSame}
            onClick={() => save.mutate({ text: source, isOverwrite: false })}
          >
            Save
          </Button>
          <Button disabled={isSame} onClick={() => setSource(workflow.source)}>
            Discard changes
          </Button>
          <span className={css['quiet']} role="status">
            {isSame ? 'Saved.' : 'Unsaved changes.'}
          </span>
          {nameInSource !== undefined && nameInSource !== name && (
            <Badge tone="warn">the source names it {nameInSource}: to store a copy, use New workflow</Badge>
          )}
        </SourcePanel>
        {save.error !== null && !lintReportOf(save.error) && <FaultNote error={save.error} />}
      </div>
      <div className={css['stack']}>
        <RunPanel name={name} source={workflow.source} enabled={workflow.enabled} isChanged={!isSame} />
        <Panel title="Permissions">
          {lint.report?.consent ? (
            <ConsentFacts consent={lint.report.consent} />
          ) : (
            <p className={css['quiet']}>Shown when the source can be parsed.</p>
          )}
        </Panel>
        <Panel
          title="Details"
          tools={
            <Button kind="danger" onClick={() => setConfirming('delete')}>
              Delete ...
            </Button>
          }
        >
          <Facts
            facts={[
              ['Version', workflow.version ?? 'none'],
              ...(workflow.origin === undefined ? [] : [['Fork of', workflow.origin] as const]),
              ['Stored', formatTime(workflow.created_at)],
              ['Changed', formatTime(workflow.updated_at)],
              ['Digest', <CopyValue key="digest" value={workflow.digest} label="the digest" />],
            ]}
          />
          {remove.error !== null && <FaultNote error={remove.error} />}
        </Panel>
      </div>
      <Confirm
        title={`Delete the workflow ${name}?`}
        isOpen={confirming === 'delete'}
        action="Delete"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
        onClose={() => setConfirming(undefined)}
      >
        <p>The source is deleted permanently. Running runs continue with the version they started with.</p>
      </Confirm>
      <Confirm
        title="The workflow was changed elsewhere"
        isOpen={confirming === 'overwrite'}
        action="Overwrite"
        busy={save.isPending}
        onConfirm={() => save.mutate({ text: source, isOverwrite: true })}
        onClose={() => setConfirming(undefined)}
      >
        <p>
          Another version of {name} was stored after you opened it. Saving replaces that version. To see it
          first, open{' '}
          <Link href={consolePath.workflow(name)} target="_blank">
            this page in another tab
          </Link>
          .
        </p>
      </Confirm>
    </div>
  );
}
