import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { CopyButton } from '../../../ui/copy.tsx';
import { formatBytes, formatParameters } from '../../../ui/format.ts';
import { Badge, Button, type Column, Confirm, FaultNote, Row, Table, LiveBadge } from '../../../ui/index.tsx';
import css from './models.module.css';
import {
  closeModel,
  type HostModel,
  type HostModels,
  loadModel,
  removeModel,
  useRefreshModels,
} from './queries.ts';

const roleBadges = {
  resident: <LiveBadge tone="good">resident</LiveBadge>,
  beside: <LiveBadge tone="good">loaded</LiveBadge>,
  embedding: <LiveBadge tone="good">embedding</LiveBadge>,
  draft: <LiveBadge tone="good">draft</LiveBadge>,
};

const purposes = { generate: 'text', embed: 'embeddings', rerank: 'reranking' };

/** The models of the host, and what can be done with each. */
export function ModelTable({
  loading,
  models,
  chosen,
}: Pick<HostModels, 'loading' | 'models'> & {
  /** Name of the model to mark; empty for none. */
  chosen: string;
}) {
  const refresh = useRefreshModels();
  const [removing, setRemoving] = useState<HostModel>();
  const load = useMutation({ mutationFn: loadModel, onSettled: refresh });
  const close = useMutation({ mutationFn: closeModel, onSettled: refresh });
  const remove = useMutation({
    mutationFn: removeModel,
    onSuccess: () => setRemoving(undefined),
    onSettled: refresh,
  });
  const isBusy = load.isPending || close.isPending;
  const actions = (model: HostModel) => (
    <Row>
      {canLoad(model, loading) && (
        <Button
          aria-label={`Load ${model.name}`}
          disabled={isBusy}
          busy={load.isPending && load.variables.name === model.name}
          onClick={() => load.mutate(model)}
        >
          {load.isPending && load.variables.name === model.name ? 'Loading ...' : 'Load'}
        </Button>
      )}
      {model.role === 'beside' && (
        <Button
          aria-label={`Close ${model.name}`}
          disabled={isBusy}
          busy={close.isPending && close.variables.name === model.name}
          onClick={() => close.mutate(model)}
        >
          Close
        </Button>
      )}
      {model.removable && (
        <Button
          kind="danger"
          aria-label={`Remove ${model.name}`}
          onClick={() => {
            remove.reset();
            setRemoving(model);
          }}
        >
          Remove
        </Button>
      )}
    </Row>
  );
  return (
    <>
      {load.isError && <FaultNote error={load.error} />}
      {close.isError && <FaultNote error={close.error} />}
      <Table
        caption="Models"
        columns={[...columns, { key: 'do', head: 'Actions', cell: actions }]}
        rows={models}
        keyOf={({ name }, index) => `${index} ${name}`}
        filter={{
          what: 'models',
          textOf: ({ name, id, kind, architecture, quantization, fit }) =>
            [name, id, kind, architecture, quantization, fit.verdict].join(' '),
        }}
        isSelected={({ name }) => name === chosen}
      />
      <Confirm
        title={`Remove ${removing?.name ?? ''}?`}
        isOpen={removing !== undefined}
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => removing && remove.mutate(removing)}
        onClose={() => setRemoving(undefined)}
      >
        <p>
          This deletes its files, {formatBytes(removing?.size_bytes ?? 0)}, from the host's data directory. To
          use it again, pull it again.
        </p>
        {remove.isError && <FaultNote error={remove.error} />}
      </Confirm>
    </>
  );
}

const columns: readonly Column<HostModel>[] = [
  {
    key: 'name',
    head: 'Name',
    cell: ({ name, id, role }) => (
      <div className={css['name']}>
        <span className={css['names']}>
          <strong>{name}</strong>
          <CopyButton text={name} label={`the name ${name}`} />
          {role && roleBadges[role]}
        </span>
        {id !== undefined && id !== name && <span className={css['muted']}>id {id}</span>}
      </div>
    ),
  },
  {
    key: 'type',
    head: 'Type',
    cell: ({ kind, architecture, quantization }) => (
      <div className={css['name']}>
        <span>{kind === null ? 'unknown' : purposes[kind]}</span>
        <span className={css['muted']}>
          {architecture}, {quantization}
        </span>
      </div>
    ),
  },
  {
    key: 'parameters',
    head: 'Parameters',
    number: true,
    cell: ({ parameters }) => (parameters === 0 ? '' : formatParameters(parameters)),
  },
  { key: 'size', head: 'Size', number: true, cell: ({ size_bytes: bytes }) => formatBytes(bytes) },
  { key: 'fit', head: 'Memory', cell: (model) => <Fit {...model} /> },
];

const verdicts = {
  loaded: <LiveBadge tone="good">loaded</LiveBadge>,
  fits: <Badge tone="good">fits</Badge>,
  shorter_context: <Badge tone="warn">fits with a shorter context</Badge>,
  too_large: <Badge tone="bad">too large</Badge>,
  unusable: <Badge tone="bad">cannot be used</Badge>,
  unknown: <Badge>not known</Badge>,
};

/** Whether a model fits into memory, and why not. */
const Fit = ({ fit, needs, memory_bytes: taken }: HostModel) => (
  <div className={css['fit']}>
    <span className={css['names']}>
      {verdicts[fit.verdict]}
      {taken === undefined
        ? needs && fit.verdict !== 'unusable' && <span>needs {formatBytes(needs.bytes)}</span>
        : `takes ${formatBytes(taken)}`}
    </span>
    {fit.reason !== undefined && <span className={css['muted']}>{fit.reason}</span>}
  </div>
);

const canLoad = ({ role, fit }: HostModel, loading: HostModels['loading']): boolean =>
  loading !== 'none' && role === null && fit.verdict !== 'unusable' && fit.verdict !== 'too_large';
