import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { agentsCss as css } from '../../agents/parts.tsx';
import type { AgentSpec } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';
import { Button, Confirm, FaultNote, Loading, Page, Panel, Row } from '../../../ui/index.tsx';
import { type AgentDraft, draftOf, specOf } from './agent-draft.ts';
import { AgentForm } from './agent-form.tsx';

const agentPath = (name: string) => `/console/tasks/agents/${name}`;
const allAgentsLink = <Link href="/console/tasks/agents">All agents</Link>;

export function NewAgent() {
  const [draft, setDraft] = useState<AgentDraft>(() => draftOf({}));
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/agent/v1/agents', { body: specOf(draft) })),
    async onSuccess({ name }) {
      await queries.invalidateQueries({ queryKey: ['agents'] });
      navigate(agentPath(name));
    },
  });
  return (
    <Page
      title="New agent"
      lead="What is not granted is refused; nothing is granted by default."
      tools={allAgentsLink}
    >
      <AgentForm
        draft={draft}
        onChange={setDraft}
        canRename
        error={create.error}
        onSubmit={() => create.mutate()}
        footer={
          <Button type="submit" kind="primary" busy={create.isPending}>
            Create the agent
          </Button>
        }
      />
    </Page>
  );
}

export function AgentPage({ name }: { name: string }) {
  const agent = useQuery({
    queryKey: ['agents', name],
    queryFn: () => unwrap(api.GET('/agent/v1/agents/{name}', { params: { path: { name } } })),
    // A refetch would discard unsaved edits.
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Page title={`Agent ${name}`} tools={allAgentsLink}>
      {agent.isPending && <Loading what="the agent" />}
      {agent.isError && <FaultNote error={agent.error} retry={() => void agent.refetch()} />}
      {agent.data && <StoredAgent key={agent.dataUpdatedAt} spec={agent.data} />}
    </Page>
  );
}

function StoredAgent({ spec }: { spec: AgentSpec }) {
  const { name } = spec;
  const [draft, setDraft] = useState<AgentDraft>(() => draftOf(spec));
  const [isConfirming, setConfirming] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const params = { path: { name } };
  const save = useMutation({
    mutationFn: () => unwrap(api.PUT('/agent/v1/agents/{name}', { params, body: specOf(draft, spec) })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['agents'] }),
  });
  const remove = useMutation({
    // The response has no body.
    mutationFn: () => unwrap<unknown>(api.DELETE('/agent/v1/agents/{name}', { params })),
    async onSuccess() {
      navigate('/console/tasks/agents');
      queries.removeQueries({ queryKey: ['agents', name] });
      await queries.invalidateQueries({ queryKey: ['agents'] });
    },
  });
  const isSame = JSON.stringify(specOf(draft, spec)) === JSON.stringify(specOf(draftOf(spec), spec));
  return (
    <>
      <AgentForm
        draft={draft}
        onChange={setDraft}
        error={save.error}
        onSubmit={() => save.mutate()}
        footer={
          <>
            <Button type="submit" kind="primary" busy={save.isPending} disabled={isSame}>
              Save
            </Button>
            <Button disabled={isSame} onClick={() => setDraft(draftOf(spec))}>
              Discard changes
            </Button>
            <Link href={`/console/tasks?agent=${name}`}>Start a task</Link>
            <span className={css['quiet']} role="status">
              {isSame ? 'Saved.' : 'Unsaved changes.'}
            </span>
          </>
        }
      />
      <Panel title="Delete">
        <p className={css['quiet']}>
          {name === 'default'
            ? 'Deleting a stored default restores the built-in one.'
            : 'Its running tasks continue. Workflows that use it can no longer run.'}
        </p>
        <Row>
          <Button kind="danger" onClick={() => setConfirming(true)}>
            Delete the agent
          </Button>
        </Row>
        {remove.error !== null && <FaultNote error={remove.error} />}
      </Panel>
      <Confirm
        title={`Delete the agent ${name}?`}
        isOpen={isConfirming}
        action="Delete"
        busy={remove.isPending}
        onConfirm={() => remove.mutate(undefined, { onSettled: () => setConfirming(false) })}
        onClose={() => setConfirming(false)}
      >
        <p>This cannot be undone.</p>
      </Confirm>
    </>
  );
}
