import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useLocation } from 'wouter';
import { agentsCss as css, consolePath } from '../../agents/parts.tsx';
import { api, unwrap } from '../../../api/client.ts';
import { asFault } from '../../../api/fault.ts';
import { Button, Dialog, FaultNote, Field } from '../../../ui/index.tsx';

/** Forks a built-in workflow, under the same or another name. */
export function ForkButton({ name }: { name: string }) {
  const [isOpen, setOpen] = useState(false);
  const [as, setAs] = useState(name);
  const form = useId();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const fork = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/agent/v1/workflows/{name}/fork', {
          params: { path: { name } },
          body: { as: as.trim() },
        }),
      ),
    async onSuccess({ name: newName }) {
      await queries.invalidateQueries({ queryKey: ['workflows'] });
      navigate(consolePath.workflow(newName));
    },
  });
  const fault = fork.error ? asFault(fork.error) : undefined;
  return (
    <>
      <Button onClick={() => setOpen(true)} aria-label={`Fork ${name}`}>
        Fork
      </Button>
      <Dialog
        title={`Fork ${name}`}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        footer={
          <>
            <Button onClick={() => setOpen(false)}>Cancel</Button>
            <Button type="submit" form={form} kind="primary" busy={fork.isPending}>
              Create fork
            </Button>
          </>
        }
      >
        <form
          id={form}
          className={css['form']}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            fork.mutate();
          }}
        >
          <Field
            label="Name of the copy"
            hint="A lowercase letter, then lowercase letters, digits, - and _. A copy with the same name replaces the built-in workflow."
            fault={fault?.violations.find(({ path }) => path === 'as')?.message}
          >
            {(control) => (
              <input
                {...control}
                spellCheck={false}
                value={as}
                onChange={({ target }) => setAs(target.value)}
              />
            )}
          </Field>
          {fault && <FaultNote error={fault} />}
        </form>
      </Dialog>
    </>
  );
}
