import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { Button, Empty, Field, FaultNote, Panel, Row, Table } from '../../../../ui/index.tsx';
import { boundKernels, type Parts, UnbindAllButton, useBind } from '../bindings.tsx';
import { slotOf } from '../graph/graph-model.ts';
import css from './bench.module.css';

/** The kernels that a bench compares with the built-ins, and a form to bind one. */
export function CurrentBindings({ parts }: { parts: Parts }) {
  const bound = boundKernels(parts);
  const rows = bound.map((kernel) => ({ kernel, slotsText: describeSlots(parts, kernel) }));
  return (
    <Panel title="Current bindings" tools={<UnbindAllButton kernels={bound} />}>
      {rows.length === 0 ? (
        <Empty title="No lab kernel is bound.">
          A bench now compares the built-in kernels with themselves. It shows the smallest difference that
          this machine can detect.
        </Empty>
      ) : (
        <Table
          caption="Bound kernels and where they run"
          rows={rows}
          keyOf={({ kernel }) => kernel}
          columns={[
            {
              key: 'kernel',
              head: 'Kernel',
              cell: ({ kernel }) => <strong>{kernel}</strong>,
            },
            { key: 'places', head: 'Components', cell: ({ slotsText }) => slotsText },
          ]}
        />
      )}
      <BindForm parts={parts} />
    </Panel>
  );
}

function BindForm({ parts }: { parts: Parts }) {
  const bind = useBind();
  const choices = useMemo(
    () =>
      parts.slots.flatMap(({ slot, compatible, swappable }) =>
        swappable ? compatible.map((kernel) => ({ kernel, slot })) : [],
      ),
    [parts],
  );
  const kernels = [...new Set(choices.map(({ kernel }) => kernel))];
  const [chosenKernel, setKernel] = useState('');
  const [chosenSlot, setSlot] = useState('');
  const kernel = kernels.includes(chosenKernel) ? chosenKernel : (kernels[0] ?? '');
  const slots = choices.filter((one) => one.kernel === kernel).map(({ slot }) => slot);
  const slot = slots.includes(chosenSlot) ? chosenSlot : (slots[0] ?? '');
  if (kernels.length === 0) {
    return (
      <p>
        No accepted kernel is registered. <Link href="/console/lab/kernels">Write one</Link>, then bind it
        here or on the Kernels tab.
      </p>
    );
  }
  return (
    <>
      <div className={css['fields']}>
        <Field label="Kernel">
          {(control) => (
            <select {...control} value={kernel} onChange={({ target }) => setKernel(target.value)}>
              {kernels.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Component">
          {(control) => (
            <select {...control} value={slot} onChange={({ target }) => setSlot(target.value)}>
              {slots.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
        <Row>
          <Button busy={bind.isPending} onClick={() => bind.mutate({ kernel, components: [slot] })}>
            Bind {kernel}
          </Button>
        </Row>
      </div>
      {bind.isError && <FaultNote error={bind.error} />}
    </>
  );
}

/** `layers.*.attn.norm (4)` */
function describeSlots({ components }: Parts, kernel: string): string {
  const ids = components
    .filter((one) => one.kernel.split(' + ').includes(kernel))
    .map(({ id }) => slotOf(id));
  return [...Map.groupBy(ids, (id) => id)]
    .map(([id, { length }]) => (length === 1 ? id : `${id} (${length})`))
    .join(', ');
}
