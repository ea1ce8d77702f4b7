import { lazy, Suspense } from 'react';
import type { Diagnostic } from './diagnostics.ts';
import { Loading } from './index.tsx';

export type { Diagnostic };

export interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  /** Absent: the editor is read-only. */
  readonly onChange?: (value: string) => void;
  readonly language: 'wgsl' | 'toml' | 'json' | 'text';
  /** Diagnostics of the current `value`. They move with edits before them and are also listed below the text. */
  readonly diagnostics?: readonly Diagnostic[];
  /** Called on Ctrl+Enter and Cmd+Enter. */
  readonly onRun?: () => void;
  /** Maximum height in lines; the editor grows with its text. Default 24. */
  readonly lines?: number;
  /** Moves cursor and focus there. Pass a new object each time, so that the same position can be visited twice. */
  readonly goTo?: { readonly line: number; readonly column: number } | undefined;
}

const Editor = lazy(() => import('./code-mirror.tsx'));

/** A code editor. CodeMirror is loaded on first use. */
export const CodeEditor = (props: CodeEditorProps) => (
  <Suspense fallback={<Loading what="the editor" />}>
    <Editor {...props} />
  </Suspense>
);
