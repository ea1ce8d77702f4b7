import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';
import { Button, Confirm, FaultNote } from '../../../ui/index.tsx';

export type Parts = components['schemas']['LabParts'];
export type BindRequest = components['schemas']['BindRequest'];

/** Binds a kernel and refreshes all lab queries. */
export function useBind() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: BindRequest) => unwrap(api.POST('/lab/v1/bindings', { body })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['lab'] }),
  });
}

/** Unbinds all kernels; the host has no route to unbind a single one. */
export function UnbindAllButton({ kernels }: { kernels: readonly string[] }) {
  const queries = useQueryClient();
  const [isConfirming, setConfirming] = useState(false);
  const unbind = useMutation({
    mutationFn: () => unwrap(api.DELETE('/lab/v1/bindings')),
    onSuccess: () => setConfirming(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ['lab'] }),
  });
  if (kernels.length === 0) return null;
  const onUnbind = () => (kernels.length === 1 ? unbind.mutate() : setConfirming(true));
  return (
    <>
      <Button busy={unbind.isPending} onClick={onUnbind}>
        Unbind {kernels.length === 1 ? kernels[0] : `all ${kernels.length} kernels`}
      </Button>
      {unbind.isError && <FaultNote error={unbind.error} />}
      <Confirm
        title="Unbind all kernels?"
        isOpen={isConfirming}
        action="Unbind all"
        busy={unbind.isPending}
        onConfirm={() => unbind.mutate()}
        onClose={() => setConfirming(false)}
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
