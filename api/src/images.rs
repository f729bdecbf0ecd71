//! Which image a box of a flavor starts from.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use cocoonbox_proto::control::v1::Flavor;

/// The image that the api was given, and those of other flavors beside it, as `image/build` names them:
/// `<flavor>-<hash>.erofs`. Looked up afresh each time: one that was built meanwhile is found.
#[derive(Clone, Debug)]
pub struct Images {
    given: PathBuf,
    flavor: Flavor,
}

#[derive(Debug, thiserror::Error)]
#[error("there is no `{flavor}` image in `{folder}`: run `image/build {flavor}`")]
pub struct NoImage {
    pub flavor: &'static str,
    folder: PathBuf,
}

impl Images {
    /// `given` is an image of the flavor that its name begins with; `core` if it begins with none.
    pub fn new(given: PathBuf) -> Self {
        let flavor = FLAVORS.into_iter().find(|flavor| is_of(&given, *flavor));
        Self {
            given,
            flavor: flavor.unwrap_or(Flavor::Core),
        }
    }

    /// The flavor of a box for which none is asked.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns the newest image of a flavor.
    pub fn find(&self, flavor: Flavor) -> Result<PathBuf, NoImage> {
        if flavor == self.flavor {
            return Ok(self.given.clone());
        }
        let folder = self.given.parent().unwrap_or(Path::new("/"));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let images = entries
            .map(|entry| entry.path())
            .filter(|path| is_of(path, flavor) && path.extension().is_some_and(|it| it == "erofs"));
        images.max_by_key(|path| built(path)).ok_or(NoImage {
            flavor: name(flavor),
            folder: folder.to_owned(),
        })
    }

    /// Returns the version of the newest image of a flavor; empty if there is none.
    pub fn version(&self, flavor: Flavor) -> String {
        self.find(flavor)
            .map(|image| version(&image))
            .unwrap_or_default()
    }
}

const FLAVORS: [Flavor; 3] = [Flavor::Core, Flavor::Light, Flavor::Desktop];

/// The name of a flavor: of its folder in `image/`, and what its images' names begin with.
pub fn name(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Unspecified | Flavor::Core => "core",
        Flavor::Light => "light",
        Flavor::Desktop => "desktop",
    }
}

/// The version of an image is its name, which has a hash of what went in.
pub fn version(image: &Path) -> String {
    let stem = image.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn is_of(image: &Path, flavor: Flavor) -> bool {
    let version = version(image);
    let rest = version.strip_prefix(name(flavor));
    rest.is_some_and(|rest| rest.starts_with('-'))
}

fn built(image: &Path) -> SystemTime {
    let built = image.metadata().and_then(|facts| facts.modified());
    built.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::Duration};

    use super::*;

    #[test]
    fn the_newest_image_of_a_flavor_is_found_beside_the_given_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let make = |name: &str, hours: u64| {
            let file = File::create(path(name)).unwrap();
            let built = SystemTime::UNIX_EPOCH + Duration::from_hours(hours);
            file.set_modified(built).unwrap();
        };
        let images = Images::new(path("core-0.erofs"));
        let none = images.find(Flavor::Light).unwrap_err().to_string();
        assert!(none.ends_with("run `image/build light`"), "{none}");
        for (name, hours) in [
            ("core-0.erofs", 1),
            ("core-1.erofs", 9),
            ("light-0.erofs", 2),
            ("light-1.erofs", 3),
            ("light-1.manifest", 4),
            ("lights-9.erofs", 5),
            ("desktop-0.erofs", 1),
        ] {
            make(name, hours);
        }
        assert_eq!(images.flavor(), Flavor::Core);
        assert_eq!(images.find(Flavor::Core).unwrap(), path("core-0.erofs"));
        assert_eq!(images.version(Flavor::Light), "light-1");
        assert_eq!(images.version(Flavor::Desktop), "desktop-0");
        let given = Images::new(path("light-0.erofs"));
        assert_eq!(given.flavor(), Flavor::Light);
        assert_eq!(given.version(Flavor::Light), "light-0");
        assert_eq!(Images::new(path("root")).flavor(), Flavor::Core);
    }
}
