//! What every command has at hand.

use std::path::PathBuf;

use crate::{
    cli::Global,
    client::Client,
    credentials::{Credentials, Secret},
    environment::Environment,
    failure::Failure,
    output::Out,
};

/// The options, the surroundings and the outputs of one run.
pub struct Context {
    pub global: Global,
    pub environment: Environment,
    pub out: Out,
}

impl Context {
    pub fn credentials(&self) -> Credentials {
        Credentials::at(self.environment.credentials_file())
    }

    /// Returns the token for the api: from the environment, else as it is kept.
    pub fn token(&self) -> Result<Option<Secret>, Failure> {
        if let Some(token) = &self.environment.token {
            return Ok(Some(token.clone()));
        }
        let login = self.credentials().get(&self.global.api.to_string())?;
        Ok(login.map(|login| login.token))
    }

    /// Connects to the api as the user whose token there is.
    pub async fn client(&mut self) -> Result<Client, Failure> {
        let token = self.token()?;
        if token.is_some() && !self.global.api.is_local() {
            let api = self.global.api.clone();
            self.out.note(format!(
                "note: the token goes to {api} unencrypted; use a tunnel"
            ));
        }
        Client::connect(&self.global.api, token.as_ref()).await
    }

    /// The address of the store that the environment names, if it names one and the command line does not
    /// name a data directory.
    pub fn store_address(&self) -> Result<Option<Secret>, Failure> {
        if self.global.is_data_dir_said {
            return Ok(None);
        }
        if let Some(address) = &self.environment.store {
            return Ok(Some(address.clone()));
        }
        let Some(path) = &self.environment.store_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::local(format!("reading `{}`", path.display()), &error))?;
        Ok(Some(Secret::new(text.trim())))
    }

    pub fn data_dir(&self) -> PathBuf {
        self.global
            .data_dir
            .clone()
            .unwrap_or_else(|| self.environment.data_home.join("cocoonbox"))
    }
}
