import { type ReactNode, useState } from 'react';
import { useLocation } from 'wouter';
import { Confirm } from '../../../../ui/index.tsx';
import { isChanged, readDraft, saveDraft } from './drafts.ts';
import { workbenchPath } from './paths.ts';
import type { KernelDetail } from './queries.ts';

/** What is put into the workbench: a registration, and its report. */
export interface Opened {
  readonly registration: KernelDetail['registration'];
  readonly report?: KernelDetail['report'];
}

/**
 * Puts the source of a registration into the workbench, after a confirmation where that would replace a draft.
 * @param onOpened called before the workbench is shown
 * @returns the function, and the dialog to render
 */
export function useOpenInWorkbench(onOpened: () => void = () => {}): {
  readonly open: (opened: Opened) => void;
  readonly dialog: ReactNode;
} {
  const [, navigate] = useLocation();
  const [replacing, setReplacing] = useState<Opened>();
  const replaceDraft = ({ registration: { op, source }, report }: Opened) => {
    const draft = readDraft(op);
    saveDraft(op, {
      source,
      stub: draft?.stub ?? '',
      target: draft?.target ?? 'plain',
      ...(report ? { checked: { source, report } } : {}),
    });
    setReplacing(undefined);
    onOpened();
    navigate(workbenchPath(op));
  };
  const open = (opened: Opened) => {
    const { op, source } = opened.registration;
    const draft = readDraft(op);
    if (draft && isChanged(draft) && draft.source !== source && draft.source !== draft.checked?.source)
      setReplacing(opened);
    else replaceDraft(opened);
  };
  const dialog = (
    <Confirm
      title={`Replace your draft for ${replacing?.registration.op ?? ''}?`}
      isOpen={replacing !== undefined}
      action="Replace"
      onClose={() => setReplacing(undefined)}
      onConfirm={() => replacing && replaceDraft(replacing)}
    >
      <p>
        The workbench has an unregistered draft for this op. The source of {replacing?.registration.name}{' '}
        replaces it.
      </p>
    </Confirm>
  );
  return { open, dialog };
}
