/** For hosts with bearer tokens: asks for one, and says when it is not enough. */
import { useSignal } from '@preact/signals'
import type { FleetError } from '../../../contracts/errors.js'
import { keepToken, token } from '../data/access.js'
import { connect } from '../data/live.js'
import { Notice } from '../parts/parts.js'

/** What a header can carry, and thus a request. */
const sendable = /^[\x21-\x7e]+$/

export function SignIn() {
  const text = useSignal('')
  const problem = useSignal(token.value === '' ? '' : 'The host does not know this token.')
  const submit = (event: Event) => {
    event.preventDefault()
    const typed = text.value.trim()
    if (typed === '') return
    if (!sendable.test(typed)) {
      problem.value = 'A token consists of ASCII characters without spaces. This one has others.'
      return
    }
    keepToken(typed)
    connect()
  }
  return (
    <form class="notice sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      <p>
        This host asks for a bearer token. It is kept for this tab, and never put into an address. If you sign in
        elsewhere on this site, do that, then reload this page.
      </p>
      {problem.value === '' ? null : (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <label>
        Token
        <input
          type="password"
          autocomplete="off"
          value={text}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Sign in
      </button>
    </form>
  )
}

/** The app that serves the page has a sign-in of its own. */
export function SignedOut() {
  return (
    <Notice title="You are signed out" isView>
      <p>Your session on this site has ended. Reload this page to sign in again; what you have edited is kept.</p>
      <button type="button" class="main" onClick={() => location.reload()}>
        Reload
      </button>
    </Notice>
  )
}

export function NoRight({ error }: { readonly error: FleetError }) {
  const again = () => {
    keepToken('')
    connect()
  }
  return (
    <Notice title="You may not read this fleet" kind="bad" isView>
      <p>{error.message}</p>
      <button type="button" onClick={again}>
        {token.value === '' ? 'Try again' : 'Use another token'}
      </button>
    </Notice>
  )
}
