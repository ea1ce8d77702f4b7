import { useMutation } from '@tanstack/react-query';
import { api, unwrap } from '../../../../api/client.ts';
import { Button, FaultNote } from '../../../../ui/index.tsx';
import css from './kernels.module.css';
import { type Parts, slotOf, useParts, useRefreshLab } from './queries.ts';

const runs = ({ kernel: running }: Parts['components'][number], kernel: string): boolean =>
  running.split(' + ').includes(kernel);

/** Where a kernel is bound, with buttons that unbind it there. */
export function BoundComponents({ kernel }: { kernel: string }) {
  const parts = useParts();
  const refresh = useRefreshLab();
  const unbind = useMutation({
    async mutationFn(components: readonly string[]) {
      for (const component of components)
        await unwrap(api.DELETE('/lab/v1/bindings/{component}', { params: { path: { component } } }));
    },
    onSettled: refresh,
  });
  const all = parts.data?.components ?? [];
  const slots = [...Map.groupBy(all, ({ id }) => slotOf(id))].flatMap(([slot, members]) => {
    const ids = members.filter((one) => runs(one, kernel)).map(({ id }) => id);
    if (ids.length === 0) return [];
    // A glob would also unbind another kernel in the same slot.
    const isAlone = members.every((one) => runs(one, kernel) || one.kernel.startsWith('builtin'));
    return [{ name: ids.length === 1 ? (ids[0] ?? slot) : slot, ids, globs: isAlone ? [slot] : ids }];
  });
  if (slots.length === 0) return <>no component</>;
  return (
    <>
      <ul className={css['bound']}>
        {slots.map(({ name, ids, globs }) => (
          <li key={name}>
            <code>{name}</code> {ids.length > 1 && `(${ids.length}) `}
            <Button
              aria-label={`Unbind ${kernel} from ${name}`}
              busy={unbind.isPending}
              onClick={() => unbind.mutate(globs)}
            >
              Unbind
            </Button>
          </li>
        ))}
      </ul>
      {unbind.error && <FaultNote error={unbind.error} />}
    </>
  );
}
