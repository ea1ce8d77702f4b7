import { Component, type ReactNode } from 'react';
import { Button, FaultNote, Page } from '../../ui/index.tsx';

/** Shows a view's error in its place; the navigation keeps working. Mount it with the path as its key. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <Page title="Something went wrong">
        <FaultNote error={error} retry={() => this.setState({ error: undefined })} />
        <p>
          The gateway may be of another version than this page.{' '}
          <Button onClick={() => location.reload()}>Reload the page</Button>
        </p>
      </Page>
    );
  }
}
