import { useMutation } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { Badge, Button, Empty, FaultNote, Field, Loading, Table } from '../../../../ui/index.tsx';
import css from './kernels.module.css';
import { slotOf, summarizeComponents, useParts, useRefreshLab } from './queries.ts';

/** Names of the kernels bound in a slot, over its layers and the nodes of its spans. */
const boundKernelNames = (bound: string): readonly string[] => [
  ...new Set(bound.split(/, | \+ /).map((name) => (name.startsWith('builtin') ? 'built-in' : name))),
];

/** Binds a kernel to a compatible slot, or to components by glob. @param props.globs initial globs from the manifest */
export function BindForm({ kernel, globs = [] }: { kernel: string; globs?: readonly string[] }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const [globText, setGlobText] = useState(globs.join(', '));
  const datalistId = useId();
  const bind = useMutation({
    mutationFn: (components: string[]) =>
      unwrap(api.POST('/lab/v1/bindings', { body: { kernel, components } })),
    onSettled: refresh,
  });
  if (parts.error) return <FaultNote error={parts.error} retry={() => void parts.refetch()} />;
  if (!parts.data) return <Loading what="the components" />;
  const slots = parts.data.slots.filter(
    ({ compatible, swappable }) => swappable && compatible.includes(kernel),
  );
  const ids = parts.data.components
    .filter(({ id }) => slots.some(({ slot }) => slot === slotOf(id)))
    .map(({ id }) => id);
  if (slots.length === 0)
    return (
      <Empty title={`${kernel} matches no component of the resident model.`}>
        The model does not use its op, or the kernel was not compared with the oracle.
      </Empty>
    );
  const globsEntered = globText
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  return (
    <div className={css['bindTo']}>
      <Table
        caption={`Components that can run ${kernel}`}
        rows={slots}
        keyOf={({ slot }) => slot}
        isSelected={({ bound }) => bound === kernel}
        columns={[
          { key: 'slot', head: 'Components', cell: ({ slot }) => <code>{slot}</code> },
          { key: 'op', head: 'Op', cell: ({ op }) => op },
          {
            key: 'bound',
            head: 'Current kernel',
            cell: ({ bound }) =>
              boundKernelNames(bound).map((name) =>
                name === 'built-in' ? (
                  `${name} `
                ) : (
                  <Badge key={name} tone="good">
                    {name}
                  </Badge>
                ),
              ),
          },
          {
            key: 'bind',
            head: 'Bind',
            cell: ({ slot, bound }) => (
              <Button
                aria-label={bound === kernel ? `Bound to ${slot}` : `Bind ${kernel} to ${slot}`}
                busy={bind.isPending}
                disabled={bound === kernel}
                onClick={() => bind.mutate([slot])}
              >
                {bound === kernel ? 'Bound' : 'Bind'}
              </Button>
            ),
          },
        ]}
      />
      <form
        className={css['line']}
        onSubmit={(event) => {
          event.preventDefault();
          if (globsEntered.length > 0) bind.mutate(globsEntered);
        }}
      >
        <Field
          label="Other components"
          hint="Ids or globs, separated by commas. * matches within a segment, ** also across dots."
        >
          {(control) => (
            <input
              {...control}
              list={datalistId}
              value={globText}
              placeholder="layers.0.attn.norm"
              spellCheck={false}
              onChange={({ target }) => setGlobText(target.value)}
            />
          )}
        </Field>
        <Button type="submit" busy={bind.isPending} disabled={globsEntered.length === 0}>
          Bind these
        </Button>
        <datalist id={datalistId}>
          {[...new Set([...slots.map(({ slot }) => slot), ...ids])].map((id) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </datalist>
      </form>
      <div role="status">
        {bind.data &&
          `${kernel} runs ${summarizeComponents(bind.data.components)} now${
            bind.data.replaced.length > 0 ? `, replacing ${bind.data.replaced.join(', ')}` : ''
          }. It takes effect from the next token.`}
      </div>
      {bind.error && <FaultNote error={bind.error} />}
    </div>
  );
}
