import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, held } from '../../api/client.ts';
import type { components } from '../../api/schema.d.ts';
import { Button, Confirm, FaultNote } from '../../parts/index.tsx';

export type Parts = components['schemas']['LabParts'];
export type BindRequest = components['schemas']['BindRequest'];

/** Binds a kernel and refreshes all lab queries. */
export function useBind() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: BindRequest) => held(api.POST('/lab/v1/bindings', { body })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['lab'] }),
  });
}

/** Unbinds all kernels; the host has no route to unbind a single one. */
export function UnbindAll({ kernels }: { kernels: readonly string[] }) {
  const queries = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const unbind = useMutation({
    mutationFn: () => held(api.DELETE('/lab/v1/bindings')),
    onSuccess: () => setAsked(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ['lab'] }),
  });
  if (kernels.length === 0) return null;
  const clear = () => (kernels.length === 1 ? unbind.mutate() : setAsked(true));
  return (
    <>
      <Button busy={unbind.isPending} onClick={clear}>
        Unbind {kernels.length === 1 ? kernels[0] : `all ${kernels.length} kernels`}
      </Button>
      {unbind.isError && <FaultNote error={unbind.error} />}
      <Confirm
        title="Unbind all kernels?"
        open={isAsked}
        action="Unbind all"
        busy={unbind.isPending}
        confirm={() => unbind.mutate()}
        close={() => setAsked(false)}
      >
        <p>
          This unbinds {kernels.join(', ')}. The kernels stay registered and can be bound again. Running
          completions continue with the built-in kernels from their next token.
        </p>
      </Confirm>
    </>
  );
}

/** Names of registered kernels that are bound. */
export const boundKernels = ({ components: all }: Pick<Parts, 'components'>): readonly string[] => [
  ...new Set(all.flatMap(({ kernel }) => kernel.split(' + ')).filter((one) => !one.startsWith('builtin'))),
];
