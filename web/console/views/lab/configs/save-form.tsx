import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import { Button, Confirm, FaultNote, Field, Panel } from '../../../../ui/index.tsx';
import { summarizeComponents, useParts, useRefreshLab } from '../kernels/queries.ts';
import css from './configs.module.css';
import { sideOfBindings } from './config-text.ts';

/** Saves the current bindings under a name. */
export function SaveForm({ names, onSaved }: { names: readonly string[]; onSaved: (name: string) => void }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const [name, setName] = useState('');
  const [isConfirming, setConfirming] = useState(false);
  const save = useMutation({
    mutationFn: () => unwrap(api.POST('/lab/v1/configs', { body: { name } })),
    onSuccess: async () => {
      await refresh();
      onSaved(name);
    },
  });
  const bound = parts.data && sideOfBindings(parts.data).bindings;
  const byKernel = Map.groupBy(bound ?? [], ({ kernel }) => kernel);
  return (
    <Panel title="Save current bindings">
      <p>
        {bound === undefined || bound.length === 0
          ? 'Nothing is bound. Bind a kernel before you save a config.'
          : [...byKernel]
              .map(([kernel, at]) => `${kernel} runs ${summarizeComponents(at.map(({ id }) => id))}`)
              .join('; ')}
      </p>
      <form
        className={css['line']}
        onSubmit={(event) => {
          event.preventDefault();
          if (names.includes(name)) setConfirming(true);
          else save.mutate();
        }}
      >
        <Field label="Name" hint="Letters, digits, . _ and -, at most 64.">
          {(control) => (
            <input
              {...control}
              value={name}
              spellCheck={false}
              onChange={({ target }) => setName(target.value)}
            />
          )}
        </Field>
        <Button type="submit" kind="primary" busy={save.isPending} disabled={name === '' || !bound?.length}>
          Save
        </Button>
      </form>
      <div role="status">{save.data && `Saved as ${save.data.name}.`}</div>
      {save.error && <FaultNote error={save.error} />}
      <Confirm
        title={`Replace ${name}?`}
        isOpen={isConfirming}
        action="Replace"
        onClose={() => setConfirming(false)}
        onConfirm={() => {
          setConfirming(false);
          save.mutate();
        }}
      >
        <p>A config with this name exists. The current bindings replace it.</p>
      </Confirm>
    </Panel>
  );
}
